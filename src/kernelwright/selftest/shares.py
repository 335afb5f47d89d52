"""The self-test in several processes, each with its share of the corpus and, where there are GPUs, one of them.

Not here: judging a share (__init__.py).
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

from kernelwright import environment

T = TypeVar("T")
Share = tuple[int, int]


def in_shares(
    judge: Callable[..., T], arguments: tuple[object, ...], workers: int, tell: Callable[[str], None]
) -> list[T]:
    """Returns what `judge(*arguments, share, tell)` returns for each share, judged at the same time.

    Args:
        judge: a function of a module; with one worker it runs in this process.
        arguments: what it is given first.
        workers: how many shares there are.
        tell: called with a line for each step, or for each share that is done.

    Raises:
        Whatever `judge` raises.
    """
    if workers == 1:
        return [judge(*arguments, (0, 1), tell)]
    shares = [(i, workers) for i in range(workers)]
    found = []
    with (
        tempfile.TemporaryDirectory(prefix="kernelwright-turns-") as turns,
        ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool,
    ):
        waiting = [pool.submit(_judge_apart, judge, arguments, share, turns) for share in shares]
        for share, done in zip(shares, waiting, strict=True):
            found.append(done.result())
            tell(f"share {share[0] + 1} of {workers} is judged")
    return found


def _judge_apart(judge: Callable[..., T], arguments: tuple[object, ...], share: Share, turns: str) -> T:
    """Judges a share on the GPU whose turn it is: what starts from here sees no other. Shares on one GPU take turns."""
    if devices := environment.visible_devices():
        os.environ.update(environment.sharing(devices[share[0] % len(devices)], Path(turns)))
    return judge(*arguments, share, lambda _: None)
