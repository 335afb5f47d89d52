"""From what the user names to a problem and its graph; the parent's side.

The source is read and parsed here (source.py); it is executed, checked and traced in a worker of
its own (worker.py), so that nothing of the user's runs in this process and no framework is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from kernelwright.capture import specs
from kernelwright.capture.source import draft
from kernelwright.errors import SourceError, WorkerDied
from kernelwright.graph import Capture
from kernelwright.process import DeadlineExceeded, Worker, WorkerKilled

Form = Literal["whole", "checked", "outlined"]
MODULE = "kernelwright.capture.worker"
DEADLINE_S = 300.0
"""Loading torch, running the reference a few times and tracing it; minutes only for what hangs."""


def load(
    source: str,
    *,
    inputs: tuple[str, ...] = (),
    evaluation: bool = False,
    dynamic: tuple[str, ...] = (),
    gradients: tuple[str, ...] = (),
    on_event: Callable[[str], None] | None = None,
    worker: Worker | None = None,
    deadline_s: float = DEADLINE_S,
    form: Form = "whole",
) -> Capture:
    """Returns the problem that a source describes, and its graph where it can be traced.

    Args:
        source: a built-in's name, `file.py` with the class contract, or `file.py:function`.
        inputs: for a function, one spec for each argument: `float32[4096,1024]`.
        evaluation: call `.eval()` on the module before use.
        gradients: inputs and parameters whose gradients are wanted, `("*",)` for all: forward and backward together.
        dynamic: sizes that vary, each as `B=x[0]:1..8192`; a file with DYNAMIC says it itself.
        on_event: called with a few words whenever a new step begins.
        worker: a running capture worker to use and leave running; None starts one.
        deadline_s: the worker is killed when it takes longer.
        form: `whole`; `checked`, without a graph; or `outlined`: tensors without contents are traced and nothing runs,
            for sizes that this machine's memory or patience does not hold. Whether the reference is a function of its
            inputs, a smaller copy can then say.

    Raises:
        UserError: the source is not there, or the inputs do not fit it.
        SourceError: the reference cannot be loaded, run, or trusted to be a function of its inputs.
    """
    steps = [f"reading {source}"]

    def step(words: str) -> None:
        steps.append(words)
        if on_event:
            on_event(words)

    if on_event:
        on_event(steps[0])
    axes = tuple(specs.parse_axis(text) for text in dynamic)
    problem = draft(source, inputs=inputs, evaluation=evaluation, axes=axes, gradients=gradients)
    own = worker is None
    worker = worker or Worker(MODULE)
    try:
        captured = worker.request("capture", deadline_s=deadline_s, on_event=step, problem=problem, form=form)
    except DeadlineExceeded:
        message = f"{source} did not finish {steps[-1]!r} within {deadline_s:g} s"
        raise SourceError(message, "use smaller shapes, or look for an endless loop") from None
    except WorkerKilled as error:
        raise SourceError(error.message, "run this again; smaller shapes need less memory") from None
    except WorkerDied as error:
        message = f"{source} ended its own process while {steps[-1]}: {error.message}"
        raise SourceError(message, "run the file on its own with python to see why; smaller shapes need less memory")  # noqa: B904
    finally:
        if own:
            worker.close()
    assert isinstance(captured, Capture)
    return captured
