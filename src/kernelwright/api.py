"""What the command line calls, for Python: from a source to a result, or from a kernel file to a record.

Not here: showing progress (console), and what is printed (cli).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kernelwright import capture, languages, run
from kernelwright.errors import UserError
from kernelwright.graph import Capture
from kernelwright.judge import Judge
from kernelwright.judge.policies import POLICIES, policies_for
from kernelwright.run.models import Authors
from kernelwright.run.result import Event, Result
from kernelwright.run.session import JudgeFactory
from kernelwright.store import Store
from kernelwright.types import Record, Target, replace

STORE = "store.sqlite"
"""The store's name in a result folder."""
DEVICES = ("cpu", "cuda")
"""What kernels can be optimized for: the processor, or the machine's first GPU."""
EMULATED = "emulated"
"""A GPU that the processor stands in for: it can be judged on, and no time can be taken."""
JUDGED_ON = (*DEVICES, EMULATED)


def optimize(
    source: str | Path,
    *,
    inputs: str | tuple[str, ...] = (),
    evaluation: bool = False,
    dynamic: str | tuple[str, ...] = (),
    gradients: bool | str | tuple[str, ...] = (),
    device: str = "cpu",
    budget_s: float = 60.0,
    out: str | Path | None = None,
    seed: int | None = None,
    authors: Authors | None = None,
    on_step: Callable[[str], None] | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> Result:
    """Returns the fastest kernel for a source that survives the judge, or the baseline where none is faster.

    Args:
        source: a built-in problem's name, a file with `Model`, `get_inputs` and `get_init_inputs`, or
            `file.py:function`.
        inputs: for a function, one spec for each argument, such as "float32[4096,1024]".
        evaluation: call `.eval()` on the module before use.
        dynamic: sizes that vary, each as "B=x[0]:1..8192", where the file has no DYNAMIC of its own.
        gradients: True for those of all floating inputs and parameters, or names: forward and backward together.
        device: cpu, or cuda for the first GPU.
        budget_s: seconds of searching.
        out: the folder of the store and of what is found; default kernelwright-out/NAME. What it holds is not
            judged again.
        seed: fixes what is proposed; None goes on with the last run's.
        authors: language models that write kernels (run/models); None leaves it to the experts.
        on_step: called with a line for each step before the search.
        on_event: called with each event of the search.

    Raises:
        UserError: the source cannot be used; the message names the fix.
    """
    captured = _captured(source, inputs, evaluation, dynamic, gradients, on_step)
    return optimize_captured(
        captured, target=_target(device), budget_s=budget_s, out=out, seed=seed, authors=authors, on_event=on_event
    )


def optimize_captured(
    captured: Capture,
    *,
    target: Target,
    budget_s: float,
    out: str | Path | None = None,
    seed: int | None = None,
    authors: Authors | None = None,
    parts: run.Parts | None = None,
    judge: JudgeFactory | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> Result:
    """Returns what `optimize` does for what was captured already.

    Args:
        captured: the problem and its graph.
        target: where the kernel is to run.
        budget_s: as for `optimize`.
        out: as for `optimize`.
        seed: as for `optimize`.
        authors: as for `optimize`.
        parts: experts, judge and policies; None takes the target's own.
        judge: instead of the parts' own.
        on_event: as for `optimize`.
    """
    folder = Path(out) if out else Path("kernelwright-out") / captured.problem.name
    parts = parts or run.parts_for(target)
    with Store(folder / STORE) as store:
        result = run.optimize(
            captured, target, store=store, budget_s=budget_s, seed=seed, authors=authors, on_event=on_event,
            parts=replace(parts, judge=judge or parts.judge),
        )  # fmt: skip
    run.write_best(result, folder)
    return result


def judge_kernel(
    source: str | Path,
    kernel_file: str | Path,
    *,
    inputs: str | tuple[str, ...] = (),
    evaluation: bool = False,
    dynamic: str | tuple[str, ...] = (),
    gradients: bool | str | tuple[str, ...] = (),
    device: str = "",
    policy: str = "report",
    out: str | Path | None = None,
    on_step: Callable[[str], None] | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> Record:
    """Returns what the judge says of a kernel that a person wrote; a kernel's faults are values in it.

    Args:
        source: as for `optimize`.
        kernel_file: C++ with one `extern "C"` function whose parameters are named as the problem's tensors, CUDA C++
            (.cu) with a comment that says how its kernels are started (judged on this machine's GPU), or Python (.py)
            that defines `ModelNew` or a function of the reference's name.
        inputs: as for `optimize`.
        evaluation: as for `optimize`.
        dynamic: as for `optimize`.
        gradients: as for `optimize`.
        device: as for `optimize`, or emulated: CUDA C++ runs on the processor, which tells whether it is right and
            nothing about its time; empty: what the file is for.
        policy: screen, measure or report: how thoroughly.
        out: a folder whose store keeps the record; None keeps nothing.
        on_step: as for `optimize`.
        on_event: as for `optimize`.

    Raises:
        UserError: the source or the file cannot be used; the message names the fix.
    """
    if policy not in POLICIES:
        raise UserError(f"there is no policy {policy!r}", f"use one of {', '.join(sorted(POLICIES))}")
    path = Path(kernel_file)
    if not path.is_file():
        raise UserError(f"there is no file {path}", f"`kernelwright show {source} --skeleton > kernel.cpp` starts one")
    captured = _captured(source, inputs, evaluation, dynamic, gradients, on_step)
    candidate = languages.candidate_from_file(captured.problem, path)
    if device == EMULATED and candidate.language != "cuda":
        raise UserError(f"{path} is {candidate.language}; only CUDA C++ (.cu) can be emulated", "leave --device out")
    target = _target(device or ("cpu" if candidate.language == "cpp" else "cuda"), known=JUDGED_ON)
    return judge_captured(captured, path, target=target, policy=policy, out=out, on_event=on_event)


def judge_captured(
    captured: Capture,
    kernel_file: str | Path,
    *,
    target: Target,
    policy: str,
    out: str | Path | None = None,
    judge: JudgeFactory = Judge,
    on_event: Callable[[Event], None] | None = None,
) -> Record:
    """Returns what `judge_kernel` does for what was captured already.

    Args:
        captured: the problem.
        kernel_file: as for `judge_kernel`.
        target: where it is judged.
        policy: as for `judge_kernel`.
        out: as for `judge_kernel`.
        judge: what judges.
        on_event: as for `judge_kernel`.

    Raises:
        UserError: the file cannot be used.
    """
    candidate = languages.candidate_from_file(captured.problem, Path(kernel_file))
    with Store(Path(out) / STORE if out else ":memory:") as store:
        return run.judge_candidate(
            captured.problem, candidate, target, store=store, judge=judge, policy=policies_for(target)[policy],
            on_event=on_event,
        )  # fmt: skip


def target_named(device: str) -> Target:
    """Returns this machine's target of a device's name: cpu or cuda."""
    return _target(device)


def target_of(recorded: Target) -> Target:
    """Returns this machine's target of the kind of another one."""
    return _target(recorded.kind)


def _target(device: str, *, known: tuple[str, ...] = DEVICES) -> Target:
    if device == EMULATED and device not in known:
        raise UserError("an emulated GPU tells no times, so nothing can be optimized for it", "use --device cuda")
    if device not in known:
        raise UserError(f"there is no device {device!r}", f"use one of {', '.join(known)}")
    if device == EMULATED:
        return languages.emulated_target()
    return languages.detect_device_target() if device == "cuda" else languages.detect_target()


def _captured(
    source: object,
    inputs: str | tuple[str, ...],
    evaluation: bool,
    dynamic: str | tuple[str, ...],
    gradients: bool | str | tuple[str, ...],
    on_step: Callable[[str], None] | None,
) -> Capture:
    if not isinstance(source, str | Path):
        fix = "give a built-in's name or file.py:function: it is loaded again in processes of its own"
        raise UserError(f"a {type(source).__name__} is no source", fix)
    given = (inputs,) if isinstance(inputs, str) else tuple(inputs)
    axes = (dynamic,) if isinstance(dynamic, str) else tuple(dynamic)
    named = () if isinstance(gradients, bool) else (gradients,) if isinstance(gradients, str) else tuple(gradients)
    wanted = ("*",) if gradients is True else named
    return capture.load(
        str(source), inputs=given, evaluation=evaluation, dynamic=axes, gradients=wanted, on_event=on_step
    )
