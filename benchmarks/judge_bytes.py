"""What a screening on a device does to memory: bytes moved relative to the input, launches and waits, by phase.

    python benchmarks/judge_bytes.py [--torch]

Counted without a GPU, on the fake device of the tests with the judge's own kernels emulated (--torch: without them, as
where there are none): a softmax whose input and output have 4 MiB each, four slots, two calls of the candidate in a
block, as a kernel of half a millisecond has. An operator of torch counts as one launch and moves its arguments and
results once; branches that torch's tensors take on a GPU only are not among them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ROOT = Path(__file__).resolve().parents[1]
for place in (ROOT, ROOT / "src"):
    sys.path.insert(0, str(place))

from tests.gpu import device_kernels as kernels  # noqa: E402
from tests.judge.device import fake_device, own_passes  # noqa: E402

from kernelwright.judge.device import arena, contents, examine, floors, passes, rounds  # noqa: E402
from kernelwright.judge.device.session import DeviceSession  # noqa: E402
from kernelwright.judge.policies import DEVICE_SCREEN  # noqa: E402
from kernelwright.types import Judgement, Target  # noqa: E402

ROWS = 1024
WAITS = ("_local_scalar_dense", "nonzero", "equal", "is_nonzero")
WRITES = ("fill_", "zero_", "uniform_", "random_", "normal_", "copy_", "index_fill_")
TARGET = Target(kind="cuda", architecture="sm_90a", features=(), threads=1, toolchain=(), device="fake device")
PHASES: dict[str, tuple[Any, str]] = {
    "draws": (examine._Examination, "_check_draw"),
    "fresh contents": (DeviceSession, "refresh"),
    "looking at a block": (examine._Examination, "_inspect"),
    "surprise": (examine._Examination, "_surprise"),
    "rounds, all else": (rounds, "run_rounds"),
}


class Count(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up what operators move, under the innermost phase that is running."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.phases = ["outside"]
        self.moved: Counter[str] = Counter()
        self.launches: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()

    def add(self, moved: int) -> None:
        """Counts one launch."""
        self.moved[self.phases[-1]] += moved
        self.launches[self.phases[-1]] += 1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given, made = (
            [t for t in tree_leaves(part) if isinstance(t, torch.Tensor)] for part in ((args, kwargs), result)
        )
        name = func.overloadpacket.__name__
        is_view = any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)
        if name in WAITS:
            self.waits[self.phases[-1]] += 1
        if not is_view and (given or made) and not name.startswith("empty"):
            # Written without being read; or a few places of a large tensor.
            moved = given if name in WRITES or func._overloadname.endswith("out") else [*given, *made]
            moved = [*made, *made] if name == "index" else [args[2], args[2]] if name == "index_put_" else moved
            self.add(sum(t.numel() * t.element_size() for t in moved))
        return result

    def within(self, phase: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function whose work counts for a phase."""

        def counted(*given: Any, **more: Any) -> Any:
            self.phases.append(phase)
            try:
                return work(*given, **more)
            finally:
                self.phases.pop()

        return counted


def bytes_of_pass(name: str, packed: tuple[bytes, ...], rows: int) -> int:
    """Returns what one of the judge's own kernels moves."""
    number: Callable[[int], int] = lambda at: int.from_bytes(packed[at], "little")  # noqa: E731
    width = {0: 4, 1: 8, 2: 2, 3: 2}
    if name == "kw_seal":
        return 2 * number(1)
    if name == "kw_within":
        return number(2) * (width[number(1)] + 8 + bool(number(5)))
    if name == "kw_within_own":
        return number(9) * 32
    if name == "kw_pair":
        return number(2) * (1 if packed[0] == packed[1] else 2)
    if name == "kw_sums":
        return number(3) * rows
    if name == "kw_agree":
        return number(3) * 2 * width[number(2)]
    return rows * number(8) * width[number(7)] * (3 if number(12) else 2)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    arena.MOST_SLOTS, contents.LARGEST_CHUNK = 4, 1
    problem, count = kernels.softmax(ROWS, ROWS), Count()
    real = passes.Passes._start

    def start(self: passes.Passes, name: str, work: int, *packed: bytes, rows: int = 1, **more: Any) -> None:
        count.add(bytes_of_pass(name, packed, rows))
        real(self, name, work, *packed, rows=rows, **more)

    passes.Passes._start = start  # type: ignore[method-assign]

    def right(x: torch.Tensor, out: torch.Tensor) -> None:
        torch.softmax(x, -1, out=out)

    floors.store(floors.Floors(device="fake device", driver=0, when="", copy={str(1 << 26): 1e12}, read=1e12))
    with tempfile.TemporaryDirectory() as folder:
        emulated = nullcontext() if given.torch else own_passes.emulated(own_passes.build(Path(folder)))
        executor = fake_device.FakeExecutor({"right": right}, time_us=500.0, other_us=4000.0)
        with emulated:
            session = DeviceSession(problem, TARGET, executor, lambda _: None)
            session.prepare(DEVICE_SCREEN)
            for phase, (owner, name) in PHASES.items():
                setattr(owner, name, count.within(phase, getattr(owner, name)))
            made = fake_device.candidate_for(problem, "right")
            with count:
                outcome = examine.examine(session, made, fake_device.artifact_for(made, Path(folder)), DEVICE_SCREEN)
    assert isinstance(outcome, Judgement)
    assert outcome.verdict.passed, outcome.verdict
    each = 4 * ROWS * ROWS
    print("| phase | bytes / bytes of the input | launches | waits |\n|---|---|---|---|")
    totals: dict[str, float] = defaultdict(float)
    for phase in (*PHASES, "outside"):
        moved, launches, waits = count.moved[phase] / each, count.launches[phase], count.waits[phase]
        totals["moved"] += moved
        totals["launches"] += launches
        totals["waits"] += waits
        print(f"| {phase} | {moved:.0f} | {launches} | {waits} |")
    print(f"| all | {totals['moved']:.0f} | {totals['launches']:.0f} | {totals['waits']:.0f} |")


if __name__ == "__main__":
    main()
