"""Trust at run time: some calls are checked against the original, and a kernel that fails once is never called again.

A call's outputs pass where their error against the original in float64 is at most that of the original times the
problem's factor, or a few units in the last place of the largest element (the judge's own rule, for a whole tensor
instead of groups of it: coarser, and cheap). Without a float64 form the two are compared with each other.
**Covers**: wrong values, NaN and infinities where the original has none (and the other way round), launch errors.
**Does not cover**: faults in calls that are not checked (replays of a captured graph among them), crashes, and memory
that a kernel writes besides its outputs.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
from collections.abc import Callable, Sequence

import torch

from kernelwright.deploy import Shadow
from kernelwright.deploy.original import Original
from kernelwright.types import ToleranceRule

LOG = logging.getLogger("kernelwright")
WAITING = 8
"""Background checks that may wait; more are left out, since each holds copies of inputs and outputs."""
LOOSE_ULPS = 1024.0
"""Of the largest element: the bound where there is no float64 form."""


class Watch:
    """One operator's trust in its kernel; may be asked from any thread."""

    def __init__(self, name: str, original: Original, shadow: Shadow) -> None:
        self.name, self.shadow, self._original = name, shadow, original
        self.reason = ""
        """Why the kernel is off, empty while it is on."""
        self.checked = 0
        """Calls that were compared."""
        self.when_off: list[Callable[[], None]] = []
        """Called when the kernel is turned off."""
        self._turn = itertools.count()
        self._lock = threading.Lock()
        self._waiting: queue.Queue[_Copies] = queue.Queue(WAITING)
        self._worker: threading.Thread | None = None

    def due(self) -> bool:
        """Counts a call and tells whether it is to be checked."""
        turn, shadow = next(self._turn), self.shadow
        return turn < shadow.first or (shadow.every > 0 and turn % shadow.every == 0)

    def disable(self, reason: str, *, quietly: bool = False) -> None:
        """Turns the kernel off for good; the first reason is kept and logged."""
        with self._lock:
            if self.reason:
                return
            self.reason = reason
        for act in self.when_off:
            act()
        if not quietly:
            LOG.warning("%s is off, its original runs instead: %s", self.name, reason)

    def check(
        self, tensors: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
    ) -> tuple[torch.Tensor, ...] | None:
        """Compares a call with the original; returns the original's outputs where the kernel's are wrong."""
        with torch.no_grad():
            expected = self._original.plain(tensors)
            fault = difference(outputs, expected, self._original.exactly(*tensors), self._original.problem.tolerance)
        self.checked += 1
        if fault:
            self.disable(fault)
            return expected
        return None

    def check_later(self, tensors: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
        """Takes copies, which another thread compares; left out where too many wait."""
        if self._waiting.full():
            return
        copies = _Copies(tensors, outputs)
        with self._lock:
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name=f"shadow of {self.name}", daemon=True)
                self._worker.start()
        try:
            self._waiting.put_nowait(copies)
        except queue.Full:
            return

    def settle(self) -> None:
        """Waits until all background checks are done."""
        self._waiting.join()

    def _work(self) -> None:
        while True:
            copies = self._waiting.get()
            try:
                copies.wait()
                if not self.reason:
                    self.check(copies.tensors, copies.outputs)
            except Exception as error:  # noqa: BLE001  (a check that fails is no reason to end the program)
                LOG.warning("a call of %s could not be checked: %s", self.name, error)
            finally:
                self._waiting.task_done()


class _Copies:
    """A call's tensors as they were, and the moment from which the copies are complete."""

    def __init__(self, tensors: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
        self.tensors = [t.detach().clone() for t in tensors]
        self.outputs = [t.detach().clone() for t in outputs]
        self._ready = None
        if self.outputs and self.outputs[0].is_cuda:
            self._ready = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._ready.record(torch.cuda.current_stream(self.outputs[0].device))

    def wait(self) -> None:
        """Orders the present thread's stream behind the copies."""
        if self._ready is not None:
            self._ready.wait(torch.cuda.current_stream(self.outputs[0].device))


def difference(
    outputs: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
    exact: Sequence[torch.Tensor] | None,
    rule: ToleranceRule,
) -> str:
    """Returns what is wrong with a call's outputs, empty where nothing is."""
    for number, (found, wanted) in enumerate(zip(outputs, expected, strict=True)):
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            return f"output {number} is {found.dtype}{list(found.shape)}, not {wanted.dtype}{list(wanted.shape)}"
        if not found.is_floating_point():
            if not torch.equal(found, wanted):
                return f"output {number} differs from the original in {int((found != wanted).sum())} elements"
            continue
        if fault := _floating(found, wanted, exact[number] if exact else None, rule):
            return f"output {number} {fault}"
    return ""


def _floating(found: torch.Tensor, wanted: torch.Tensor, exact: torch.Tensor | None, rule: ToleranceRule) -> str:
    finite = wanted.isfinite()
    if bool((found.isfinite() != finite).any()):
        strange = int((finite & ~found.isfinite()).sum())
        return f"has {strange} NaN or infinite elements where the original has none, or lacks some that it has"
    if not wanted.numel():
        return ""
    zero = torch.zeros((), dtype=torch.float64, device=found.device)
    ours, theirs = (torch.where(finite, t.double(), zero) for t in (found, wanted))
    truth = theirs if exact is None else torch.where(finite, exact.double(), zero)
    truth = torch.where(truth.isfinite(), truth, theirs)
    scale = float(truth.abs().max()) * torch.finfo(wanted.dtype).eps
    own = float((theirs - truth).abs().max())
    bound = LOOSE_ULPS * scale if exact is None else max(rule.max_factor * own, rule.floor_ulps * scale)
    error = float((ours - truth).abs().max())
    if error > bound + torch.finfo(wanted.dtype).tiny:
        return f"is wrong by {error:.3g}; the original itself by {own:.3g}, and {bound:.3g} is allowed"
    return ""
