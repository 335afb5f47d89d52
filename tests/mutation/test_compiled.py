"""Mutants of the CUDA kernels still compile, so that what they plant is a bug and not a typing error."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.languages.cuda import Cuda
from kernelwright.languages.devices import cuda_target
from kernelwright.mutation import mutants
from kernelwright.selftest.kernel_files import CORPUS, kernel_of
from kernelwright.selftest.small_problems import make_problem
from kernelwright.types import Artifact, SourceFile

CUDA = sorted((CORPUS / "mutants" / "kernels").glob("*.cu"))
PER_KERNEL = 14
LEAST_SHARE = 0.8


def compiles(text: str) -> bool:
    """Tells whether NVRTC makes a cubin of a source."""
    core = pytest.importorskip("cuda.core")
    headers = Path(pytest.importorskip("nvidia.cu13").__path__[0], "include")
    options = core.ProgramOptions(arch="sm_90a", std="c++17", include_path=[str(headers)] if headers.is_dir() else [])
    plain = text.replace("#include <math.h>\n", "#define INFINITY __int_as_float(0x7f800000)\n")
    try:
        core.Program(plain, "c++", options).compile("cubin")
    except Exception:  # noqa: BLE001  (whatever the compiler's binding raises; the original shows that it works)
        return False
    return True


@pytest.mark.parametrize("path", CUDA, ids=lambda p: p.name)
def test_most_cuda_mutants_compile(path: Path) -> None:
    source = SourceFile(path=path.name, text=path.read_text())
    assert compiles(source.text)
    found = mutants(source, "cuda", limit=PER_KERNEL, seed=1)
    good = [mutant for mutant in found if compiles(mutant.source.text)]
    assert len(good) >= LEAST_SHARE * len(found), [m.name for m in found if m not in good]


def test_there_are_enough() -> None:
    assert len(CUDA) >= 6
    assert len(sorted((CORPUS / "mutants" / "kernels").glob("*_triton.py"))) >= 4


@pytest.mark.parametrize("path", CUDA, ids=lambda p: p.name)
def test_the_kernels_are_whole_candidates(path: Path, tmp_path: Path) -> None:
    kernel = kernel_of(path)
    problem = make_problem(kernel.problem)
    outcome = Cuda().compile(problem, kernel.candidate(problem), cuda_target("sm_90a"), tmp_path)
    assert isinstance(outcome, Artifact), outcome
    assert outcome.resources
