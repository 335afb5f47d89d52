"""Small problems, one judge session for each, and the kernels of tests/cheats and tests/honest."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from tests.judge.problems import FURTHER

from kernelwright.judge import SCREEN, Judge
from kernelwright.languages import detect_target
from kernelwright.languages.plan import element_ctype
from kernelwright.types import (
    Binding,
    Candidate,
    Failure,
    Judgement,
    LaunchPlan,
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
QUICK = replace(
    SCREEN,
    name="quick",
    families=(*SCREEN.families, "powers", "huge", "tiny", "shifted", "exact", "lowest", "sparse", "single"),
    rounds=6,
    block_us=400.0,
    call_deadline_s=3.0,
    hidden_shapes=3,
)
ROWS, COLUMNS = 64, 256


@dataclass(frozen=True)
class Given:
    """A problem in few words: tensors as `name[shape]` or `name:dtype[shape]`, and what is computed from them."""

    inputs: str
    outputs: str
    forward: str
    """The body of `forward`, without `return` where it is an expression."""
    parameters: str = ""
    init: str = ""
    """The rest of `__init__`."""
    draws: tuple[tuple[str, str], ...] = ()
    """How an input is drawn, where that is not `torch.randn`."""


PROBLEMS = {
    "softmax": Given("x[64,256]", "out[64,256]", "torch.softmax(x, dim=-1)"),
    "rowmax": Given("x[64,256]", "out[64]", "x.amax(dim=-1)"),
    "argmax": Given("x[64,256]", "out:int64[64]", "x.argmax(dim=-1)"),
    "mse": Given("x[64,256] y[64,256]", "out[]", "((x - y) ** 2).mean()"),
    "layernorm": Given(
        "x[64,256]", "out[64,256]", "self.ln(x)", "weight[256] bias[256]", "self.ln = torch.nn.LayerNorm(256)"
    ),
    "cumsum": Given("x[64,256]", "out[64,256]", "x.cumsum(dim=-1)"),
    "matmul": Given("a[48,64] b[64,40]", "out[48,40]", "a @ b"),
    "maxpool": Given("x[4,8,16,16]", "out[4,8,8,8]", "F.max_pool2d(x, 3, stride=2, padding=1)"),
    "avgpool": Given("x[4,8,16,16]", "out[4,8,8,8]", "F.avg_pool2d(x, 2)"),
    "embedding": Given(
        "ids:int64[96]", "out[96,32]", "self.table(ids)", "table[100,32]", "self.table = torch.nn.Embedding(100, 32)",
        (("ids", "torch.randint(0, 100, (96,))"),),
    ),
    "gather": Given(
        "x[64,256] index:int64[64,16]", "out[64,16]", "x.gather(1, index)",
        draws=(("index", "torch.randint(0, 256, (64, 16))"),),
    ),
    "topk": Given("x[64,256]", "values[64,8] indices:int64[64,8]", "tuple(torch.topk(x, 8, dim=-1))"),
    "sort": Given("x[64,256]", "out[64,256]", "torch.sort(x, dim=-1).values"),
    "cross_entropy": Given(
        "x[64,100] target:int64[64]", "out[]", "F.cross_entropy(x, target)",
        draws=(("target", "torch.randint(0, 100, (64,))"),),
    ),
    "gelu": Given("x[64,256]", "out[64,256]", "F.gelu(x)"),
    "lgamma": Given("x[64,256]", "out[64,256]", "torch.lgamma(x)"),
    "silu_float16": Given("x:float16[64,256]", "out:float16[64,256]", "F.silu(x)"),
    "rmsnorm_bfloat16": Given(
        "x:bfloat16[64,256]", "out:bfloat16[64,256]", "self.norm(x)", "weight:bfloat16[256]",
        "self.norm = torch.nn.RMSNorm(256, eps=1e-6).bfloat16()",
    ),
    "l2norm": Given("x[64,256]", "out[64,256]", "F.normalize(x, dim=-1)"),
    "groupnorm": Given(
        "x[4,16,8,8]", "out[4,16,8,8]", "self.gn(x)", "weight[16] bias[16]", "self.gn = torch.nn.GroupNorm(4, 16)"
    ),
    "transpose": Given("x[64,256]", "out[256,64]", "x.t().contiguous()"),
    "masked_softmax": Given(
        "x[64,256] mask:bool[64,256]", "out[64,256]", 'torch.softmax(x.masked_fill(mask, float("-inf")), dim=-1)',
        draws=(("mask", "(torch.rand(64, 256) < 0.4) | (torch.arange(64) % 16 == 5)[:, None]"),),
    ),
    "counts": Given("x[64,256]", "out:int64[64]", "(x > 0).sum(dim=-1)"),
    "greater": Given("x[64,256] y[64,256]", "out:bool[64,256]", "x > y"),
    "logsumexp_float64": Given("x:float64[64,256]", "out:float64[64]", "torch.logsumexp(x, dim=-1)"),
    "intsum": Given(
        "x:int64[64,256]", "out:int64[64]", "x.sum(dim=-1)", draws=(("x", "torch.randint(-(2**40), 2**40, (64, 256))"),)
    ),
    "var_mean": Given("x[64,256]", "var[64] mean[64]", "tuple(torch.var_mean(x, dim=-1))"),
    "norm": Given("x[64,256]", "out[]", "x.norm()"),
    "mlp": Given(
        "x[16,32]", "out[16,24]", "self.two(torch.relu(self.one(x)))", "w1[64,32] b1[64] w2[24,64] b2[24]",
        "self.one, self.two = torch.nn.Linear(32, 64), torch.nn.Linear(64, 24)",
    ),
    "attention": Given(
        "q[2,32,16] k[2,32,16] v[2,32,16]", "out[2,32,16]", "F.scaled_dot_product_attention(q, k, v)"
    ),
    "conv1d": Given("x[2,4,64]", "out[2,8,62]", "self.conv(x)", "weight[8,4,3] bias[8]",
                    "self.conv = torch.nn.Conv1d(4, 8, 3)"),
}  # fmt: skip
"""Small, of many kinds: a session of each takes a fraction of a second."""
TENSOR = re.compile(r"(\w+)(?::(\w+))?\[([\d,]*)\]")


def _tensors(text: str, role: Role) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(
            name=name, shape=tuple(int(size) for size in shape.split(",") if size), dtype=dtype or "float32", role=role
        )
        for name, dtype, shape in TENSOR.findall(text)
    )


def make_problem(name: str) -> Problem:
    if name in FURTHER:
        return FURTHER[name]()
    given = PROBLEMS[name]
    inputs, outputs = _tensors(given.inputs, "input"), _tensors(given.outputs, "output")
    parameters = _tensors(given.parameters, "parameter")
    special = dict(given.draws)
    draws = [special.get(t.name, f"torch.randn({t.shape}).to(torch.{t.dtype})") for t in inputs]
    init = f"    def __init__(self):\n        super().__init__()\n        {given.init}\n" if given.init else ""
    text = (
        f"import torch, torch.nn.functional as F\nclass Model(torch.nn.Module):\n{init}"
        f"    def forward(self, {', '.join(t.name for t in inputs)}):\n        return {given.forward}\n"
        f"def get_inputs():\n    return [{', '.join(draws)}]\n"
    )
    return Problem(
        name=name,
        inputs=inputs,
        parameters=parameters,
        outputs=outputs,
        reference=(SourceFile(path=f"{name}.py", text=text),),
        entry="Model",
        workloads=(Workload(name="given", generator="source"),),
        min_bytes=sum(math.prod(t.shape) for t in inputs + outputs),
    )


@dataclass(frozen=True)
class Kernel:
    """A kernel file with what its head says.

    A header that it includes in quotation marks lies beside it.
    `TRICK:` what it tries. `CAUGHT BY:` names of checks or failure kinds, any of them. `PROBLEM:` which
    reference. `WORKSPACE:` name and bytes. `STEP:` symbol and its arguments, once for each step.
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
            sources=self._sources(),
            plan=LaunchPlan(steps=tuple(_step(words, tensors, axes) for words in steps), workspaces=workspaces),
        )

    def _sources(self) -> tuple[SourceFile, ...]:
        text = self.path.read_text()
        beside = [self.path.with_name(name) for name in re.findall(r'#include "(\w+\.h)"', text)]
        headers = [SourceFile(path=path.name, text=path.read_text()) for path in beside if path.exists()]
        return (SourceFile(path="kernel.cpp", text=text), *headers)


def _step(words: list[str], tensors: dict[str, TensorSpec], axes: tuple[str, ...] = ()) -> Step:
    bound = [
        Binding(kind="tensor", name=name, ctype=element_ctype(tensors[name]))
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
    """Judges all kernels of both folders, a batch for each problem, the first time one of them is asked for.

    One judge turns from problem to problem, so that its processes start once.
    """

    def __init__(self) -> None:
        # A small cache, so that few slots make a footprint: these tests are about verdicts, not times.
        self.target = replace(detect_target(), cache_bytes=2 << 20)
        self._judge: Judge | None = None
        self._records: dict[Path, Record] = {}

    def judge(self, problem: str) -> Judge:
        if self._judge is None:
            self._judge = Judge(make_problem(problem), self.target)
        self._judge.turn_to(make_problem(problem))
        return self._judge

    def record(self, kernel: Kernel) -> Record:
        if kernel.path not in self._records:
            batch = [k for k in kernels("cheats") + kernels("honest") if k.problem == kernel.problem]
            judge = self.judge(kernel.problem)
            records = judge.judge([k.candidate(judge.problem) for k in batch], QUICK)
            self._records.update(zip([k.path for k in batch], records, strict=True))
        return self._records[kernel.path]

    def close(self) -> None:
        if self._judge is not None:
            self._judge.close()


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
