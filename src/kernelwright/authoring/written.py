"""`@kernelwright.kernel`: a kernel written in Python or as text, with the judge, the tuner and the export of any other.

    @kernelwright.kernel(reference=softmax, inputs=("float32[512,256]",), tune={"UNROLL": (1, 2, 4)})
    def fast_softmax(UNROLL):
        return f'''extern "C" void fast_softmax(const float* x, float* out) {{ ... }}'''

    fast_softmax.judge().passed
    op = fast_softmax.tune(budget_s=60).load()

Languages `cpp` and `cuda`: the decorated function returns the file's text for the values of the tuned parameters.
Languages `triton` and `cutile`: it is the kernel itself, with its own decorator below ours; `launch` says how it is
started, in the form of a kernel file's line, and tuned parameters stand in it as {NAME}.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from kernelwright import api, capture, environment, languages, run
from kernelwright.authoring.source import source_of
from kernelwright.deploy import load_all
from kernelwright.deploy.export import export
from kernelwright.errors import UserError
from kernelwright.graph import Capture, Graph
from kernelwright.judge.policies import policies_for
from kernelwright.run.result import Result
from kernelwright.run.session import JudgeFactory
from kernelwright.run.verify import Remembered
from kernelwright.store import Store
from kernelwright.types import (
    Candidate,
    Failure,
    OptionValue,
    Parameter,
    Point,
    Policy,
    Problem,
    Record,
    Refusal,
    Space,
    Target,
    Template,
    digest,
    replace,
    value,
)

Language = Literal["cpp", "cuda", "triton", "cutile"]
SUFFIXES = {"cpp": ".cpp", "cuda": ".cu", "triton": ".py", "cutile": ".py"}
IMPORTS = {
    "triton": "import triton\nimport triton.language as tl\n",
    "cutile": "import cuda.tile as ct\n",
}


@value
class _Offer:
    templates: tuple[Template, ...]
    refusals: tuple[Refusal, ...] = ()


class Written:
    """A kernel that was written in Python, with its reference; made by `kernel`.

    Args:
        make: from the tuned parameters to the kernel file's text.
        name: the kernel's name.
        language: of the text.
        reference: a function of tensors.
        inputs: one spec for each of its arguments.
        tune: the values that each parameter may take, the best guess first.
        device: cpu or cuda; default: what the language is for.
        dynamic: sizes that vary, as for `optimize`.
        judge: who judges; None: the judge.
    """

    def __init__(
        self, make: Callable[..., str], *, name: str, language: Language, reference: Callable[..., Any],
        inputs: Sequence[Any], tune: Mapping[str, Sequence[OptionValue]], device: str, dynamic: Sequence[str],
        judge: JudgeFactory | None = None,
    ) -> None:  # fmt: skip
        self.name, self.language = name, language
        self._make, self._reference, self._judge = make, reference, judge
        self._inputs = tuple(item if isinstance(item, str) else spec_of(item) for item in inputs)
        self._dynamic = tuple(dynamic)
        self.space = Space(parameters=tuple(Parameter(name=n, values=tuple(v)) for n, v in tune.items()))
        self._device = device or ("cpu" if language == "cpp" else "cuda")
        self._captured: Capture | None = None
        self._point: Point = self.space.default()
        self._records: list[Record] = []
        self._policy: Policy | None = None

    def __repr__(self) -> str:
        state = f"judged {len(self._records)} times" if self._records else "not judged"
        return f"<kernel {self.name} ({self.language}) for {self._reference.__name__}, {state}>"

    @property
    def folder(self) -> Path:
        """Where its files, its store and its bundle are."""
        key = digest((self.name, self.language, source_of(self._reference), self._inputs, self._dynamic))
        return environment.home() / "written" / f"{self.name}-{key.rpartition(':')[2][:12]}"

    @property
    def captured(self) -> Capture:
        """The problem that its reference is; captured on first use."""
        if self._captured is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = self.folder / "reference.py"
            file.write_text(source_of(self._reference), encoding="utf-8")
            source = f"{file}:{self._reference.__name__}"
            self._captured = capture.load(source, inputs=self._inputs, dynamic=self._dynamic)
        return self._captured

    def text(self, **parameters: OptionValue) -> str:
        """Returns the kernel file's text for some values of the tuned parameters, the present ones otherwise."""
        return self._make(**(dict(self._point) | parameters))

    def candidate(self, point: Point | None = None) -> Candidate:
        """Returns the candidate of one choice of parameters.

        Raises:
            UserError: the text is no kernel of the reference; the message says why.
        """
        point = self._point if point is None else point
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / f"{self.name}{SUFFIXES[self.language]}"
        file.write_text(self._make(**dict(point)), encoding="utf-8")
        return replace(languages.candidate_from_file(self.captured.problem, file), template=self.name, point=point)

    def judge(self, *, policy: str = "report") -> Record:
        """Returns the judge's record of the kernel with its present parameters."""
        target = self._target()
        candidate, chosen = self.candidate(), policies_for(target)[policy]
        given = {"judge": self._judge} if self._judge else {}
        with Store(self.folder / api.STORE) as store:
            record = run.judge_candidate(
                self.captured.problem,
                candidate,
                target,
                store=store,
                policy=chosen,
                **given,  # type: ignore[arg-type]
            )
        self._records.append(record)
        self._policy = chosen
        return record

    def tune(self, *, budget_s: float = 60.0, seed: int | None = None) -> Written:
        """Searches the parameters with the judge's own measurements, keeps the best ones, and returns itself."""
        target = self._target()
        parts = run.parts_for(target)
        template = Template(name=self.name, space=self.space, emit=self._emit)

        def ours(problem: Problem, graph: Graph, *, target: Target) -> _Offer:
            return _Offer(templates=(template,))

        parts = replace(parts, experts=ours, **({"judge": self._judge} if self._judge else {}))
        captured = self.captured if self.captured.graph else replace(self.captured, graph=Graph(nodes=(), outputs=()))
        with Store(self.folder / api.STORE) as store:
            result = run.optimize(captured, target, store=store, budget_s=budget_s, parts=parts, seed=seed)
        self._take(result)
        return self

    def _take(self, result: Result) -> None:
        row = next((row for row in result.rows if row.candidate == result.best), None)
        if row is None or result.best is None:
            raise UserError(f"{self.name}: {result.why}", "call judge() to see what is wrong with it")
        self._point = result.best.point
        self._records.append(result.report or row.latest)
        self._policy = result.policy

    def _emit(self, point: Point) -> Candidate | Failure:
        try:
            return self.candidate(point)
        except UserError as error:
            return Failure(stage="emit", kind="text", message=error.message)

    def _target(self) -> Target:
        return languages.detect_device_target() if self._device == "cuda" else languages.detect_target()

    def export(self, out: str | Path) -> Path:
        """Writes a bundle of the kernel as it was judged last, judging it first where that has not happened.

        Raises:
            UserError: it did not pass; the message gives the reason.
        """
        record = self._records[-1] if self._records else self.judge()
        if isinstance(record.outcome, Failure):
            raise UserError(f"{self.name} did not pass: {record.outcome.message}", "mend it and call judge()")
        assert self._policy is not None
        remembered = Remembered(
            problem=self.captured.problem, candidate=self.candidate(), target=self._target(), policy=self._policy,
            record=record, origin=str(self.folder),
        )  # fmt: skip
        return export([remembered], out, name=self.name)

    def load(self, **how: Any) -> Any:
        """Returns the kernel as an operator (deploy.load), exported below its folder."""
        (op,) = load_all(self.export(self.folder / "bundle"), **how)
        return op


def kernel(
    *, reference: Callable[..., Any], inputs: Sequence[Any], language: Language | None = None, launch: str = "",
    tune: Mapping[str, Sequence[OptionValue]] | None = None, device: str = "", dynamic: Sequence[str] = (),
    judge: JudgeFactory | None = None,
) -> Callable[[Any], Written]:  # fmt: skip
    """Returns a decorator that makes a function a kernel; see written.py for the two forms.

    Args:
        reference: what is right, a function of tensors.
        inputs: one for each of its arguments: a spec such as "float32[512,256]", or a tensor like it.
        language: cpp, cuda, triton or cutile; default: what the decorated object is, cpp for a plain function.
        launch: for triton and cutile, what stands behind `kernelwright-launch: NAME`, {NAME} for a tuned parameter.
        tune: by parameter, the values that it may take, the best guess first.
        device: cpu or cuda; default: what the language is for.
        dynamic: sizes that vary, as for `optimize`.
        judge: who judges instead of the judge, for tests.

    Raises:
        UserError: a tile kernel without `launch`.
    """

    def decorate(item: Any) -> Written:
        function = getattr(item, "fn", None) or getattr(item, "__wrapped__", None) or item
        is_tile = function is not item or language in ("triton", "cutile")
        chosen: Language = language or (_tile_language(item) if is_tile else "cpp")
        if is_tile and not launch:
            raise UserError(
                f"{function.__name__} is a tile kernel without `launch`", 'give launch="grid=... BLOCK=..."'
            )
        make = _tile_text(function, chosen, launch) if is_tile else item
        return Written(
            make, name=function.__name__, language=chosen, reference=reference, inputs=inputs, tune=dict(tune or {}),
            device=device, dynamic=dynamic, judge=judge,
        )  # fmt: skip

    return decorate


def _tile_language(item: Any) -> Language:
    return "triton" if type(item).__module__.startswith("triton") else "cutile"


def _tile_text(function: Callable[..., Any], language: Language, launch: str) -> Callable[..., str]:
    lines = textwrap.dedent(inspect.getsource(function)).splitlines()
    # Ours comes first and may span lines; the language's own decorator is the last one above `def`.
    start = next(number for number, line in enumerate(lines) if line.startswith("def "))
    mark = {"triton": "@triton.jit", "cutile": "@ct.kernel"}[language]
    text = "\n".join([mark, *lines[start:]])

    def make(**parameters: OptionValue) -> str:
        line = f"# kernelwright-launch: {function.__name__} {launch.format(**parameters)}"
        return f"{IMPORTS[language]}\n{line}\n\n\n{text}\n"

    return make


def spec_of(array: Any) -> str:
    """Returns the spec of a tensor or array: "float32[512,256]"."""
    dtype = str(array.dtype).rpartition(".")[2]
    return f"{dtype}[{','.join(map(str, array.shape))}]"
