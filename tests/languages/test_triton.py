"""The language `triton`: the inherited suite, on a machine without a device."""

from __future__ import annotations

from pathlib import Path

from kernelwright.languages import cubin
from kernelwright.testing.languages import LanguageSuite
from kernelwright.types import Artifact, Launch, Target

HEAD = "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
GOOD = f"""{HEAD}def scale(x, weight, out, n, BLOCK: tl.constexpr = 64):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    product = tl.load(x + i, mask=inside) * tl.load(weight + i, mask=inside)
    tl.store(out + i, product, mask=inside)
"""


def target(architecture: str) -> Target:
    return Target(kind="cuda", architecture=architecture, features=(), threads=2, toolchain=())


class TestTriton(LanguageSuite):
    language = "triton"
    path = "kernel.py"
    comment = "#"
    launch = Launch(grid=(1, 1, 1), block=(1, 1, 1))
    good = GOOD
    broken = (GOOD.replace("tl.store(out", "tl.stoor(out"), 10)
    mismatched = GOOD.replace("out, n", "out: tl.int64, n")
    forbidden = (f"import os\n{GOOD}", "'os'")
    endless = f"{GOOD}\nwhile True:\n    pass\n"
    option = ("num_warps", 2)

    @classmethod
    def target(cls) -> Target:
        return target("sm_90a")

    def check_artifact(self, artifact: Artifact) -> None:
        (kernel,) = cubin.read(Path(artifact.path)).kernels
        (step,) = artifact.plan.steps
        assert step.symbol == kernel.symbol == "scale"
        assert step.launch is not None
        assert step.launch.block == kernel.required_block == (128, 1, 1)
        # n is 64, which 16 divides: known to the compiler, but still a parameter; then two scratch pointers.
        assert [binding.name for binding in step.arguments] == [
            "x",
            "weight",
            "out",
            "n",
            "global_scratch",
            "profile_scratch",
        ]
        assert [parameter.size_bytes for parameter in kernel.parameters] == [8, 8, 8, 8, 8, 8]
        assert artifact.resources[0].registers > 0
