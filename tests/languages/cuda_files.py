"""CUDA files of the tests, with the problem that their heads describe.

`TENSOR:` name, role, dtype and sizes, once for each tensor; without any, `PROBLEM:`, `TRICK:` and `CAUGHT BY:` are as
in tests/judge/kernel_files.py. `ARCH:` the architectures that it is for (default: all). `WHERE: device` marks what only
a device can show. How the kernels are started stands in kernelwright-launch lines, as in anybody's file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.judge.kernel_files import make_problem

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
    def needs_device(self) -> bool:
        return self.every("WHERE") == ["device"]

    @property
    def caught_by(self) -> list[str]:
        return [name.strip() for name in self.every("CAUGHT BY")[0].split("|")]

    @property
    def problem(self) -> Problem:
        if not self.every("TENSOR"):
            return make_problem((self.every("PROBLEM") or ["softmax"])[0])
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
