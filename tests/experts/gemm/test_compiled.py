"""The compile ring: kernels of every kind compile for their architectures, with the instructions they are made of."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests.experts.gemm.emulated import made

from kernelwright.analysis.sass import disassemble, find_tool
from kernelwright.experts.gemm import Direct, Dot, Hopper, Product, Schedule, Warps, candidate, problem_of, spell
from kernelwright.experts.gemm.rules import MOST_SUMS, REGISTERS, sums_of
from kernelwright.languages import cuda
from kernelwright.languages.devices import cuda_target
from kernelwright.types import Artifact, Candidate

NK, KN = Product(m=512, n=512, k=512), Product(m=512, n=512, k=512, layout="kn", dtype="bfloat16")
HOPPER = {"HGMMA", "UTMALDG", "SYNCS"}
RING: list[tuple[str, Product, Schedule, set[str]]] = [
    ("sm_90a", NK, Hopper(bm=128, bn=256, stages=3), {*HOPPER, "UTMASTG", "USETMAXREG"}),
    ("sm_90a", KN, Hopper(bm=256, bn=128, stages=3, cluster_m=2), {*HOPPER, "UTMASTG", "USETMAXREG"}),
    ("sm_90a", NK, Hopper(bm=128, bn=160, pingpong=True), {*HOPPER, "UTMASTG", "USETMAXREG"}),
    ("sm_90a", NK, Hopper(bm=192, bn=160, consumers=3, stages=3), {*HOPPER, "USETMAXREG"}),
    ("sm_90a", NK, Hopper(bm=64, bn=64, consumers=1, splits=4, persistent=False), {*HOPPER, "STAS"}),
    ("sm_90a", KN, Hopper(bm=128, bn=128, splits=2, persistent=False), {*HOPPER, "STAS", "UTMASTG"}),
    ("sm_90a", NK, Hopper(bm=128, bn=256, persistent=False, cluster_m=2), {*HOPPER, "UTMASTG", "USETMAXREG"}),
    ("sm_90a", KN, Hopper(bm=64, bn=16, consumers=1, swap=True), HOPPER),
    ("sm_90a", Product(m=2048, n=3000, k=512), Hopper(bm=128, bn=192, tail=2), {*HOPPER, "UTMASTG", "USETMAXREG"}),
    ("sm_90a", NK, Warps(bm=32, bn=32, splits=2), {"HMMA", "LDSM", "LDGSTS"}),
    ("sm_80", KN, Warps(bm=128, bn=128, bk=32, warps_n=4, parts=2), {"HMMA", "LDSM", "LDGSTS"}),
    ("sm_100", NK, Warps(), {"HMMA", "LDSM", "LDGSTS"}),
    ("sm_90a", NK, Direct(bm=32, bn=64, warps=4, splits=2), {"HMMA", "LDGSTS", "STAS"}),
    ("sm_80", NK, Direct(bm=16, bn=16, warps=2), {"HMMA", "LDGSTS"}),
    ("sm_80", NK, Dot(rows=8, columns=2, warps_k=2), {"FFMA", "LDG"}),
]


@pytest.mark.parametrize(
    ("architecture", "product", "schedule", "wanted"),
    RING,
    ids=lambda x: (
        spell(x).replace(" ", "-") if isinstance(x, Hopper | Warps | Direct | Dot) else x if isinstance(x, str) else ""
    ),
)
def test_kernels_have_their_instructions_and_spill_nothing(
    architecture: str, product: Product, schedule: Schedule, wanted: set[str], tmp_path: Path
) -> None:
    given = candidate(product, schedule, architecture=architecture)
    assert isinstance(given, Candidate), given
    outcome = cuda.Cuda().compile(problem_of(product), given, cuda_target(architecture), tmp_path)
    assert isinstance(outcome, Artifact), outcome
    assert "C75" not in outcome.log  # wgmma serialised (C7510), setmaxnreg ignored (C7508)
    for kernel in outcome.resources:
        assert (kernel.spill_bytes, kernel.stack_bytes) == (0, 0), kernel
    code = disassemble(Path(outcome.path))["gemm"]
    names = {instruction.name for instruction in code}
    assert wanted <= names, sorted(wanted - names)
    if isinstance(schedule, Hopper):
        assert "HMMA" not in names
        assert sums_of(schedule) <= MOST_SUMS[schedule.consumers]
        # The compiler repeats the loop: four wgmmas of 16 elements of k for each 64 rows of a warpgroup's tile.
        rows = schedule.bm if schedule.pingpong else schedule.bm // schedule.consumers
        assert sum(instruction.name == "HGMMA" for instruction in code) % (4 * rows // 64) == 0


def reached(cubin: Path, beginning: str) -> list[str]:
    """The instructions that can follow the first one that begins so, along all branches."""
    command = [find_tool("nvdisasm"), "-c", str(cubin)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    code, labels = list[str](), dict[str, int]()
    for line in text.splitlines():
        if label := re.match(r"^(\.L_[\w$]+):", line):
            labels[label[1]] = len(code)
        elif found := re.match(r"^\s*/\*[0-9a-f]{4,}\*/\s+(.*?);", line):
            code.append(found[1])
    todo, seen = [next(i for i, one in enumerate(code) if one.startswith(beginning))], set[int]()
    while todo:
        at = todo.pop()
        if at in seen or at >= len(code):
            continue
        seen.add(at)
        todo += [labels[label] for label in re.findall(r"`\((\.L_[\w$]+)\)", code[at])]
        if not re.match(r"(BRA|EXIT|RET)\b(?!\.(U|DIV))", code[at]):
            todo.append(at + 1)
    return [code[at] for at in sorted(seen)]


@pytest.mark.parametrize(
    "schedule",
    [Hopper(bm=128, bn=128, pingpong=True, cluster_m=2), Hopper(bm=192, bn=128, consumers=3, stages=3)],
    ids=["two", "three"],
)
def test_roles_use_no_more_registers_than_they_take(schedule: Hopper, tmp_path: Path) -> None:
    outcome = cuda.Cuda().compile(problem_of(NK), made(NK, schedule), cuda_target("sm_90a"), tmp_path)
    assert isinstance(outcome, Artifact), outcome
    up, down = REGISTERS[schedule.consumers]
    producing = reached(Path(outcome.path), "USETMAXREG.DEALLOC")
    multiplying = reached(Path(outcome.path), "USETMAXREG.TRY_ALLOC")
    for role, most, wanted, other in ((producing, down, "UTMALDG", "HGMMA"), (multiplying, up, "HGMMA", "UTMALDG")):
        used = [int(number) for one in role for number in re.findall(r"\bR(\d+)\b", one)]
        assert max(used) < most
        assert any(wanted in one for one in role)
        assert not any(other in one for one in role)


def test_one_binary_serves_all_sizes_of_a_kind() -> None:
    schedule = Hopper(bm=128, bn=128)
    one, other = made(Product(m=512, n=512, k=512), schedule), made(Product(m=8192, n=64, k=1024), schedule)
    assert one.sources == other.sources
    assert one.plan != other.plan
    assert made(Product(m=512, n=512, k=512, bias=True), schedule).sources != one.sources
