"""CUDA files of the tests, with the problem that their heads describe.

`TENSOR:` name, role, dtype and sizes, once for each tensor. `ARCH:` the architectures that it is for (default: all).
`TRICK:` and `CAUGHT BY:` as in tests/judge/kernel_files.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from kernelwright.languages import candidate_from_file
from kernelwright.languages.devices import COMPILED
from kernelwright.types import Candidate, Problem, SourceFile, TensorSpec, Workload

HERE = Path(__file__).parent
CHEATS = HERE.parent / "cheats_cuda"
KERNELS = HERE / "cuda"


@dataclass(frozen=True)
class CudaFile:
    path: Path

    def every(self, key: str) -> list[str]:
        return re.findall(rf"^// {key}: (.*)$", self.path.read_text(), re.MULTILINE)

    @property
    def architectures(self) -> tuple[str, ...]:
        said = self.every("ARCH")
        return tuple(said[0].split()) if said else COMPILED

    @property
    def problem(self) -> Problem:
        specs = []
        for line in self.every("TENSOR"):
            name, role, dtype, *shape = line.split()
            spec = TensorSpec(name=name, role=role, dtype=dtype, shape=tuple(map(int, shape)))  # type: ignore[arg-type]
            specs.append(spec)
        return Problem(
            name=self.path.stem,
            inputs=tuple(s for s in specs if s.role == "input"),
            parameters=tuple(s for s in specs if s.role == "parameter"),
            outputs=tuple(s for s in specs if s.role == "output"),
            reference=(SourceFile(path="reference.py", text="def f(): ...\n"),),
            entry="f",
            workloads=(Workload(name="default", generator="spec"),),
            min_bytes=1,
        )

    @property
    def candidate(self) -> Candidate:
        return candidate_from_file(self.problem, self.path)


def files(folder: Path) -> list[CudaFile]:
    return [CudaFile(path) for path in sorted(folder.glob("*.cu"))]
