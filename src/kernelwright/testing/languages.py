"""Conformance suites to inherit from in tests; needs pytest.

    class TestCpp(LanguageSuite):
        language = "cpp"
        ...

Not here: tests of one implementation's own details.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.languages import Builder, cache, detect_target
from kernelwright.languages.builder import KILLED_ATTEMPTS
from kernelwright.types import (
    Artifact,
    Binding,
    Candidate,
    Failure,
    Launch,
    LaunchPlan,
    OptionValue,
    Problem,
    SourceFile,
    Step,
    Target,
    TensorSpec,
    Workload,
    digest,
    replace,
)

SIZE = 64
IMPATIENT_S = 5.0
"""The deadline of a compilation that would take minutes."""


def scale_problem() -> Problem:
    """Returns a small problem: out = x * weight, 64 float32 values each."""

    def tensor(name: str, role: str) -> TensorSpec:
        return TensorSpec(name=name, shape=(SIZE,), dtype="float32", role=role)  # type: ignore[arg-type]

    return Problem(
        name="scale",
        inputs=(tensor("x", "input"),),
        parameters=(tensor("weight", "parameter"),),
        outputs=(tensor("out", "output"),),
        reference=(SourceFile(path="reference.py", text="def scale(x, weight):\n    return x * weight\n"),),
        entry="scale",
        workloads=(Workload(name="default", generator="spec"),),
        min_bytes=3 * 4 * SIZE,
    )


def scale_candidate(
    language: str,
    text: str,
    *,
    options: tuple[tuple[str, OptionValue], ...] = (),
    path: str = "kernel.cpp",
    launch: Launch | None = None,
) -> Candidate:
    """Returns a candidate for `scale_problem` with one step: scale(x, weight, out, n), n an int64_t."""
    arguments = tuple(Binding(kind="tensor", name=name, ctype="float") for name in ("x", "weight", "out"))
    number = Binding(kind="scalar", name="n", ctype="int64_t", scalar=SIZE)
    return Candidate(
        problem=digest(scale_problem()),
        language=language,
        sources=(SourceFile(path=path, text=text),),
        plan=LaunchPlan(steps=(Step(symbol="scale", arguments=(*arguments, number), launch=launch),)),
        options=options,
    )


class LanguageSuite:
    """What every language must do with honest, broken and hostile sources.

    **Covers**: good builds and their caching, damage to the cache, located errors, refusal of
    options, plans and sources by name, bounded time, builders at once, killed workers, Ctrl-C.
    **Does not cover**: what the built code computes (a subclass's `check_artifact`) and how it is inspected.

    A subclass gives the language's name and texts; each is a kernel `scale(x, weight, out, n)`. A language of a device
    also says how that is launched and for which target it is built; its `check_artifact` reads the binary, since
    there may be no device.
    """

    language: str
    path: str = "kernel.cpp"
    """The source file's name."""
    comment: str = "//"
    """What begins a comment."""
    launch: Launch | None = None
    """How a device's kernel is started."""
    good: str
    broken: tuple[str, int]
    """A text that does not compile, and the line that must be named."""
    mismatched: str
    """A text whose parameter `out` has another type than the plan's."""
    forbidden: tuple[str, str]
    """A text that the language refuses to compile, and a word of the reason."""
    endless: str
    """A text that takes minutes to compile."""
    option: tuple[str, OptionValue]
    """An option that the language knows, with a value that is not the default."""

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _home(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
        with pytest.MonkeyPatch.context() as patch:
            home = tmp_path_factory.mktemp("home")
            patch.setenv("KERNELWRIGHT_HOME", str(home))
            yield home

    @pytest.fixture(scope="class")
    @classmethod
    def builder(cls, _home: Path) -> Iterator[Builder]:
        """A builder with two workers and an empty cache of its own."""
        with Builder(cls.target(), workers=2) as builder:
            yield builder

    @classmethod
    def target(cls) -> Target:
        """Returns what artifacts are built for: this machine's CPU."""
        return detect_target()

    def candidate(self, text: str, **options: OptionValue) -> Candidate:
        """Returns the candidate of one text."""
        given = tuple(options.items())
        return scale_candidate(self.language, text, options=given, path=self.path, launch=self.launch)

    def check_artifact(self, artifact: Artifact) -> None:
        """Asserts that an artifact computes out = x * weight; to be overridden."""
        raise NotImplementedError

    def build(self, builder: Builder, text: str, **options: OptionValue) -> Artifact | Failure:
        """Returns what becomes of one text."""
        return builder.build(scale_problem(), (self.candidate(text, **options),))[0]

    def built(self, builder: Builder, text: str, **options: OptionValue) -> Artifact:
        """Returns the artifact of a text that must build."""
        outcome = self.build(builder, text, **options)
        assert isinstance(outcome, Artifact), outcome
        return outcome

    def refused(self, builder: Builder, text: str, **options: OptionValue) -> Failure:
        """Returns the failure of a text that must not build."""
        outcome = self.build(builder, text, **options)
        assert isinstance(outcome, Failure)
        return outcome

    def test_good_kernel_builds_and_computes(self, builder: Builder) -> None:
        """An honest kernel builds, its blob is what its digest says, and it computes."""
        artifact = self.built(builder, self.good)
        assert artifact.candidate == digest(self.candidate(self.good))
        assert artifact.blob == cache.blob_digest(Path(artifact.path))
        self.check_artifact(artifact)

    def test_second_build_comes_from_the_cache(self, builder: Builder) -> None:
        """The same candidate is compiled once."""
        first, second = self.built(builder, self.good), self.built(builder, self.good)
        assert second.cached
        assert (second.blob, second.path) == (first.blob, first.path)

    def test_order_and_duplicates_are_kept(self, builder: Builder) -> None:
        """Outcomes stand where their candidates stood."""
        name, chosen = self.option
        good, other = self.candidate(self.good), self.candidate(self.good, **{name: chosen})
        bad = self.candidate(self.broken[0])
        outcomes = builder.build(scale_problem(), (bad, good, other, good, bad))
        kinds = [type(outcome) for outcome in outcomes]
        assert kinds == [Failure, Artifact, Artifact, Artifact, Failure]
        assert [getattr(outcome, "candidate", "") for outcome in outcomes[1:4]] == [*map(digest, (good, other, good))]

    def test_damaged_blob_is_built_again(self, builder: Builder) -> None:
        """A flipped bit in a kept library is noticed."""
        artifact = self.built(builder, self.good)
        path = Path(artifact.path)
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        again = self.built(builder, self.good)
        assert not again.cached
        assert again.blob == artifact.blob == cache.blob_digest(Path(again.path))

    @pytest.mark.parametrize("damage", ["", "{", '{"":"Candidate"}', "[]", "null", '{"":"Failure"}'])
    def test_damaged_outcome_is_built_again(self, builder: Builder, damage: str) -> None:
        """A damaged description is noticed, whatever it holds."""
        artifact = self.built(builder, self.good)
        (Path(artifact.path).parent / cache.OUTCOME).write_text(damage)
        assert not self.built(builder, self.good).cached
        assert self.built(builder, self.good).cached

    def test_syntax_error_is_located(self, builder: Builder) -> None:
        """The author's own line is named, and the whole log kept."""
        text, line = self.broken
        failure = self.refused(builder, text)
        assert (failure.stage, failure.kind) == ("build", "syntax")
        assert failure.location == f"{self.path}:{line}"
        assert failure.message in failure.detail

    def test_mismatch_of_plan_and_source_names_the_argument(self, builder: Builder) -> None:
        """A plan whose types do not match the source does not compile, and reads as such."""
        failure = self.refused(builder, self.mismatched)
        assert (failure.stage, failure.kind) == ("build", "type")
        assert "'out'" in failure.message
        assert failure.location.startswith(f"{self.path}:")

    def test_unknown_option_is_refused_by_name(self, builder: Builder) -> None:
        """An unknown option is refused, and the known ones are listed."""
        failure = self.refused(builder, self.good, no_such_option=1)
        assert failure.kind == "option"
        assert "no_such_option" in failure.message
        assert self.option[0] in failure.message

    def test_wrong_option_value_is_refused(self, builder: Builder) -> None:
        """An option cannot carry a flag."""
        failure = self.refused(builder, self.good, **{self.option[0]: "-fplugin=/tmp/x.so"})
        assert failure.kind == "option"

    def test_wrong_plan_is_refused_by_name(self, builder: Builder) -> None:
        """A misspelt tensor is named together with those that exist."""
        candidate = self.candidate(self.good)
        step = candidate.plan.steps[0]
        wrong = replace(step.arguments[1], name="weigth")
        plan = LaunchPlan(steps=(replace(step, arguments=(step.arguments[0], wrong, *step.arguments[2:])),))
        (failure,) = builder.build(scale_problem(), (replace(candidate, plan=plan),))
        assert isinstance(failure, Failure)
        assert failure.stage == "plan"
        assert failure.message == (
            "step 1 'scale': argument 'weigth' is no tensor of the problem; it has x, weight, out"
        )

    def test_forbidden_source_is_refused_with_its_reason(self, builder: Builder) -> None:
        """A source that may not be compiled is refused with its line."""
        text, word = self.forbidden
        failure = self.refused(builder, text)
        assert failure.stage == "build"
        assert word in failure.message
        assert failure.location.startswith(f"{self.path}:")

    def test_endless_compilation_is_killed_and_the_builder_goes_on(self, builder: Builder) -> None:
        """A build ends at its deadline, with everything it started."""
        with Builder(self.target(), workers=1) as impatient:
            self.built(impatient, f"{self.good}\n{self.comment} before the endless one\n")
            usual_s, impatient.deadline_s = impatient.deadline_s, IMPATIENT_S
            failure = self.refused(impatient, self.endless)
            assert failure.kind == "timeout"
            impatient.deadline_s = usual_s
            self.built(impatient, f"{self.good}\n{self.comment} after it\n")
        deadline = time.monotonic() + 20
        while _compilers() and time.monotonic() < deadline:  # a killed process takes a moment to go
            time.sleep(0.05)
        assert not _compilers(), "a compiler outlived its worker"

    def test_killed_worker_is_replaced(self, builder: Builder) -> None:
        """One dead worker costs nothing."""
        with Builder(self.target(), workers=1) as one:
            timer = threading.Thread(target=_kill_first_worker, args=(one, 1))
            timer.start()
            self.built(one, f"{self.good}\n{self.comment} replaced\n")
            timer.join()

    def test_candidate_whose_workers_are_always_killed_is_a_failure(self, builder: Builder) -> None:
        """A candidate whose workers die is given up, and the next one builds."""
        with Builder(self.target(), workers=1) as one:
            timer = threading.Thread(target=_kill_first_worker, args=(one, KILLED_ATTEMPTS))
            timer.start()
            failure = self.refused(one, self.endless)
            timer.join()
            assert (failure.stage, failure.kind) == ("build", "killed")
            self.built(one, self.good)

    def test_two_builders_at_once_agree(self, builder: Builder) -> None:
        """Builders that build the same thing at once end with one result."""
        text = f"{self.good}\n{self.comment} two builders\n"
        outcomes: list[Artifact | Failure] = []

        def work() -> None:
            with Builder(self.target(), workers=1) as mine:
                outcomes.append(self.build(mine, text))

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({outcome.path for outcome in outcomes if isinstance(outcome, Artifact)}) == 1
        assert self.built(builder, text).cached


def _compilers() -> list[str]:
    """Command lines of processes that still work on something in this test's cache."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        home = os.fsencode(os.environ["KERNELWRIGHT_HOME"])
        if any(home in word for word in words):
            found.append(b" ".join(words).decode(errors="replace"))
    return found


def _kill_first_worker(builder: Builder, times: int) -> None:
    """Kills the builder's busy worker as soon as there is one, `times` different ones."""
    killed: set[int] = set()
    deadline = time.monotonic() + 60
    while len(killed) < times and time.monotonic() < deadline:
        for worker in list(builder._busy):
            if worker.process.pid not in killed:
                time.sleep(0.05)
                os.kill(worker.process.pid, signal.SIGKILL)
                killed.add(worker.process.pid)
        time.sleep(0.01)
