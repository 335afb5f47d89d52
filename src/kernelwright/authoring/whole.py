"""`kernelwright.optimize_model`: a kernel for each region of a model that is worth one, searched in order of its share.

    kernels = kernelwright.optimize_model(model, x, budget_s=600, out="kernels")
    model = kernelwright.accelerate(model, bundles=[k.bundle for k in kernels if k.bundle])

Each region becomes a source in the folder (deploy/cutting.py) and is optimised like any other; what is done is not done
again, so that an interrupted call goes on where it was. The kernels are for the forward pass.
**Does not cover**: gradients; graphs with sizes that vary; what cutting.py leaves to libraries.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright import api, capture, codec, run
from kernelwright.deploy.export import export
from kernelwright.errors import KernelwrightError
from kernelwright.graph import Capture
from kernelwright.process import Worker
from kernelwright.run.recollect import recollect
from kernelwright.run.session import disturbed
from kernelwright.store import Store
from kernelwright.types import replace, value

if TYPE_CHECKING:
    from kernelwright.deploy.cutting import Cut
    from kernelwright.types import Target

LEAST_BUDGET_S = 3.0
DONE, CAPTURED = "result.json", "capture.json"
BUSY = "the machine was too busy to time a kernel"


@value
class RegionResult:
    """What became of one region of a model."""

    name: str
    calls: int
    """Places in the model."""
    share: float
    """Of the model's time, operator by operator."""
    answer: str
    """kernel, baseline, refused (it is no problem for the judge), or later (time was up, or the machine was so busy
    that the judge could not time a kernel that is right)."""
    why: str
    bundle: str = ""
    """The kernel's folder."""


def optimize_model(
    model: Callable[..., Any],
    *inputs: Any,
    budget_s: float = 600.0,
    out: str | Path = "kernelwright-out/model",
    device: str = "cpu",
    least_share: float = 0.01,
    deadline_s: float = float("inf"),
    parts: run.Parts | None = None,
    on_step: Callable[[str], None] | None = None,
) -> tuple[RegionResult, ...]:
    """Searches kernels for a model's regions, those with the largest share of its time first.

    Args:
        model: a module or function.
        inputs: what it is called with; runs under torch.no_grad().
        budget_s: seconds of searching for all regions together, divided by their shares; each has three at least, and
            the judge's preparation comes on top.
        out: the folder of sources, stores and bundles; what lies there is not searched again.
        device: cpu or cuda.
        least_share: regions below this share of the time are left alone.
        deadline_s: no region is begun when so much time has passed.
        parts: the experts, the judge and its policies; None takes the device's own.
        on_step: called with a line for each region.

    Raises:
        UserError: the device is not there.
    """
    from kernelwright.deploy.explaining import cuts

    begun, target = time.monotonic(), api.target_named(device)
    parts = parts or run.parts_for(target)
    found = [cut for cut in cuts(model, *inputs) if cut.share >= least_share]
    whole = sum(cut.share for cut in found) or 1.0
    results = []
    for cut in found:
        result = _done(Path(out) / cut.name)
        if result is None and time.monotonic() - begun > deadline_s:
            result = RegionResult(name=cut.name, calls=0, share=0.0, answer="later", why="time was up")
        elif result is None:
            budget = max(LEAST_BUDGET_S, budget_s * cut.share / whole)
            result = _searched(cut, Path(out) / cut.name, target, budget, parts)
        result = replace(result, calls=cut.calls, share=cut.share)
        results.append(result)
        if on_step:
            on_step(f"{cut.name}: {100 * cut.share:.1f} % in {cut.calls} places: {result.answer}: {result.why}")
    return tuple(results)


def _done(folder: Path) -> RegionResult | None:
    try:
        return RegionResult(**json.loads((folder / DONE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def capture_regions(
    model: Callable[..., Any], *inputs: Any, out: str | Path, on_step: Callable[[str], None] | None = None
) -> None:
    """Captures a model's regions into the folder where `optimize_model` looks for them, so that it need not.

    Captures hold no times: another machine may make them, whose processor need not be quick (shares of time, and
    therefore the order, are measured anew by `optimize_model`).

    Args:
        model: as for `optimize_model`.
        inputs: likewise.
        out: likewise.
        on_step: called with a line for each region.
    """
    from kernelwright.deploy.explaining import cuts

    with Worker(capture.MODULE) as worker:
        for cut in cuts(model, *inputs, runs=1):
            try:
                made = _captured(cut, Path(out) / cut.name, worker)
                said = made.reason or "with a graph"
            except KernelwrightError as error:
                said = str(error)
            if on_step:
                on_step(f"{cut.name}: {said}")


def _captured(cut: Cut, folder: Path, worker: Worker | None = None) -> Capture:
    source, kept = folder / f"{cut.name}.py", folder / CAPTURED
    if kept.is_file():
        known = codec.loads(kept.read_text(encoding="utf-8"))
        if isinstance(known, Capture) and known.problem.reference[0].text == cut.text:
            return known
    folder.mkdir(parents=True, exist_ok=True)
    source.write_text(cut.text, encoding="utf-8")
    made = capture.load(str(source), worker=worker)
    kept.write_text(codec.dumps(made), encoding="utf-8")
    return made


def _searched(cut: Cut, folder: Path, target: Target, budget_s: float, parts: run.Parts) -> RegionResult:
    answer: str
    answer, bundle, place = "refused", "", folder / "search"
    try:
        captured = _captured(cut, folder)
        with Store(place / api.STORE) as store:
            found = run.optimize(captured, target, store=store, budget_s=budget_s, parts=parts)
        run.write_best(found, place)
        answer, why = found.answer, found.why
        if found.answer != "kernel" and any(disturbed(row.latest) for row in found.rows):
            return RegionResult(name=cut.name, calls=cut.calls, share=cut.share, answer="later", why=BUSY)
        if found.answer == "kernel":
            bundle = str(export([recollect(str(place))], folder / "bundle", name=cut.name))
    except KernelwrightError as error:
        answer, why = "refused", str(error)
    result = RegionResult(name=cut.name, calls=cut.calls, share=cut.share, answer=answer, why=why, bundle=bundle)
    (folder / DONE).write_text(json.dumps(asdict(result)), encoding="utf-8")
    return result
