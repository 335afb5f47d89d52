"""The language `cutile`: the inherited suite, on a machine without a device."""

from __future__ import annotations

from pathlib import Path

from kernelwright.languages import cubin
from kernelwright.testing.languages import LanguageSuite
from kernelwright.types import Artifact, Launch, Target

HEAD = "import cuda.tile as ct\n\n\n@ct.kernel\n"
GOOD = f"""{HEAD}def scale(x, weight, out, n, BLOCK: ct.Constant[int] = 64):
    i = ct.bid(0)
    a = ct.load(x, (i,), shape=(BLOCK,))
    b = ct.load(weight, (i,), shape=(BLOCK,))
    ct.store(out, (i,), tile=a * b)
"""


class TestCutile(LanguageSuite):
    language = "cutile"
    path = "kernel.py"
    comment = "#"
    launch = Launch(grid=(1, 1, 1), block=(1, 1, 1))
    good = GOOD
    broken = (GOOD.replace("a * b", "a * c"), 9)
    mismatched = GOOD.replace("out, n", "out: ct.ScalarInt64, n")
    forbidden = (f"import os\n{GOOD}", "'os'")
    endless = f"{GOOD}\nwhile True:\n    pass\n"
    option = ("occupancy", 2)

    @classmethod
    def target(cls) -> Target:
        return Target(kind="cuda", architecture="sm_90a", features=(), threads=2, toolchain=())

    def check_artifact(self, artifact: Artifact) -> None:
        (kernel,) = cubin.read(Path(artifact.path)).kernels
        (step,) = artifact.plan.steps
        assert step.symbol == kernel.symbol == "scale"
        assert step.launch is not None
        assert step.launch.block == kernel.required_block
        # Of each array a pointer, its one size and its one stride; then n, which is an int64_t in the plan.
        assert [b.name for b in step.arguments[:3]] == ["x", "x_size_0", "x_stride_0"]
        assert [b.scalar for b in step.arguments[1:3]] == [64, 1]
        assert [p.size_bytes for p in kernel.parameters] == [8, 4, 4, 8, 4, 4, 8, 4, 4, 8]
        assert "kernel.py:7: Load instruction selected" in artifact.log
