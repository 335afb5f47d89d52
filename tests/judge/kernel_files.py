"""Small problems, one judge session for each, and the kernels of tests/cheats and tests/honest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.judge.problems import FURTHER

from kernelwright.judge import SCREEN, Judge
from kernelwright.languages import detect_target
from kernelwright.types import (
    Binding,
    Candidate,
    Failure,
    Judgement,
    LaunchPlan,
    Policy,
    Problem,
    Record,
    Role,
    SourceFile,
    Step,
    TensorSpec,
    Workload,
    Workspace,
    digest,
    replace,
)

HERE = Path(__file__).parents[1]
CTYPES = {"float32": "float", "int64": "int64_t", "bool": "bool"}
QUICK = replace(
    SCREEN,
    name="quick",
    families=(*SCREEN.families, "powers"),
    rounds=4,
    block_us=400.0,
    call_deadline_s=3.0,
    hidden_shapes=3,
)

REFERENCES = {
    "softmax": "    def forward(self, x):\n        return torch.softmax(x, dim=-1)\n",
    "rowmax": "    def forward(self, x):\n        return x.amax(dim=-1)\n",
    "argmax": "    def forward(self, x):\n        return x.argmax(dim=-1)\n",
    "mse": "    def forward(self, x, y):\n        return ((x - y) ** 2).mean()\n",
    "layernorm": """\
    def __init__(self):
        super().__init__()
        self.ln = torch.nn.LayerNorm(256)
    def forward(self, x):
        return self.ln(x)
""",
}
ROWS, COLUMNS = 64, 256


def _tensor(name: str, shape: tuple[int, ...], role: Role, dtype: str = "float32") -> TensorSpec:
    return TensorSpec(name=name, shape=shape, dtype=dtype, role=role)


def make_problem(name: str) -> Problem:
    if name in FURTHER:
        return FURTHER[name]()
    x = _tensor("x", (ROWS, COLUMNS), "input")
    inputs = (x, _tensor("y", (ROWS, COLUMNS), "input")) if name == "mse" else (x,)
    parameters: tuple[TensorSpec, ...] = ()
    if name == "layernorm":
        parameters = (_tensor("weight", (COLUMNS,), "parameter"), _tensor("bias", (COLUMNS,), "parameter"))
    shape = {"mse": (), "rowmax": (ROWS,), "argmax": (ROWS,)}.get(name, (ROWS, COLUMNS))
    draws = ", ".join(["torch.randn(64, 256)"] * len(inputs))
    text = f"import torch\nclass Model(torch.nn.Module):\n{REFERENCES[name]}def get_inputs():\n    return [{draws}]\n"
    return Problem(
        name=name,
        inputs=inputs,
        parameters=parameters,
        outputs=(_tensor("out", shape, "output", "int64" if name == "argmax" else "float32"),),
        reference=(SourceFile(path=f"{name}.py", text=text),),
        entry="Model",
        workloads=(Workload(name="given", generator="source"),),
        min_bytes=4 * ROWS * COLUMNS,
    )


@dataclass(frozen=True)
class Kernel:
    """A kernel file with what its head says.

    `TRICK:` what it tries. `CAUGHT BY:` names of checks or failure kinds, any of them. `PROBLEM:` which
    reference. `FAMILIES:` further families of inputs.
    `WORKSPACE:` name and bytes. `STEP:` symbol and its arguments, once for each step.
    """

    path: Path
    head: tuple[tuple[str, str], ...]

    def said(self, key: str, default: str = "") -> str:
        return next((text for name, text in self.head if name == key), default)

    def every(self, key: str) -> list[list[str]]:
        return [text.split() for name, text in self.head if name == key]

    @property
    def problem(self) -> str:
        return self.said("PROBLEM", "softmax")

    @property
    def policy(self) -> Policy:
        further = tuple(self.said("FAMILIES").split())
        return replace(QUICK, name="further", families=QUICK.families + further) if further else QUICK

    def candidate(self, problem: Problem) -> Candidate:
        workspaces = tuple(
            Workspace(name=name, size_bytes=int(size) if size.isdecimal() else size)
            for name, size in self.every("WORKSPACE")
        )
        tensors = {t.name: t for t in problem.arguments}
        axes = tuple(axis.name for axis in problem.axes)
        steps = self.every("STEP") or [["kernel", *tensors, *(w.name for w in workspaces), *axes]]
        return Candidate(
            problem=digest(problem),
            language="cpp",
            sources=(SourceFile(path="kernel.cpp", text=self.path.read_text()),),
            plan=LaunchPlan(steps=tuple(_step(words, tensors, axes) for words in steps), workspaces=workspaces),
        )


def _step(words: list[str], tensors: dict[str, TensorSpec], axes: tuple[str, ...] = ()) -> Step:
    bound = [
        Binding(kind="tensor", name=name, ctype=CTYPES[tensors[name].dtype])
        if name in tensors
        else Binding(kind="axis", name=name, ctype="int64_t")
        if name in axes
        else Binding(kind="workspace", name=name, ctype="float")
        for name in words[1:]
    ]
    return Step(symbol=words[0], arguments=tuple(bound))


def kernels(folder: str) -> list[Kernel]:
    found = []
    for path in sorted((HERE / folder).glob("*.cpp")):
        lines = [line for line in path.read_text().splitlines() if line.startswith("// ")]
        head = tuple((m[1], m[2].strip()) for line in lines if (m := re.match(r"// ([A-Z ]+): (.*)", line)))
        found.append(Kernel(path, head))
    return found


class Sessions:
    """Judges all kernels of both folders, a batch for each problem, the first time one of them is asked for."""

    def __init__(self) -> None:
        # A small cache, so that few slots make a footprint: these tests are about verdicts, not times.
        self.target = replace(detect_target(), cache_bytes=2 << 20)
        self._judges: dict[str, Judge] = {}
        self._records: dict[Path, Record] = {}

    def judge(self, problem: str) -> Judge:
        if problem not in self._judges:
            self._judges[problem] = Judge(make_problem(problem), self.target)
        return self._judges[problem]

    def record(self, kernel: Kernel) -> Record:
        if kernel.path not in self._records:
            every = [k for k in kernels("cheats") + kernels("honest") if k.problem == kernel.problem]
            batch = [k for k in every if k.policy == kernel.policy]
            judge = self.judge(kernel.problem)
            records = judge.judge([k.candidate(judge.problem) for k in batch], kernel.policy)
            self._records.update(zip([k.path for k in batch], records, strict=True))
        return self._records[kernel.path]

    def close(self) -> None:
        for judge in self._judges.values():
            judge.close()


def judged(record: Record) -> Judgement:
    """Returns the outcome of a candidate that could be run."""
    assert isinstance(record.outcome, Judgement), record.outcome
    return record.outcome


def reason(record: Record) -> str:
    """Returns the failure's kind or the failed check's name, 'passed' when there is neither."""
    if isinstance(record.outcome, Failure):
        return record.outcome.kind
    failed = [check.name for check in record.outcome.verdict.checks if not check.passed]
    return failed[0] if failed else "passed"
