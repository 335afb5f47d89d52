"""The witness worker: the process in which a candidate's Python runs. Started by name, never imported by the judge.

Reads commands of the judge worker and answers them; ends with it. Not here: the judge's end (witness.py).
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

import torch

from kernelwright.judge.witness import channel, guard, recording
from kernelwright.judge.witness.engine import Engine, Processor
from kernelwright.judge.witness.holder import Holder
from kernelwright.judge.witness.loading import Stopped
from kernelwright.judge.witness.memory import Memory, place_of

PR_SET_PDEATHSIG = 1
WARM_ELEMENTS = 1 << 17
"""Enough for torch to use all its threads."""
FILE_BYTES = 1 << 28


def main(control: int, reply: int, fds: tuple[int, int, int]) -> None:
    """Answers until the judge worker is gone."""
    send, receive, own, getpid = channel.send, channel.receive, os.getpid(), os.getpid
    exit_now, write, pack, collect_none = os._exit, os.write, channel.LENGTH.pack, gc.disable
    verbs, size, empty, alone, found = VERBS, len, guard.watch((), ()), OURS_ALONE, FOUND
    holder: Holder | None = None
    look = empty.__next__
    answer: dict[str, Any]
    send(reply, {"awake": own})
    while True:
        try:
            message = receive(control)
        except EOFError:
            exit_now(0)
        try:
            if message["verb"] == "open":
                holder, engine = open_holder(message, fds)
                answer = {"result": {"inputs_at": holder.inputs_at, "method": engine.method}}
                tables = [*guard.own_tables(), *holder.tables()]
                look = guard.watch(tables, [*guard.functions_of(tables), *holder.functions()]).__next__
            elif message["verb"] == "go":
                called, places = holder.go()  # type: ignore[union-attr]
                answer = {"called": called, "at": places}
            else:
                answer = {"result": verbs[message["verb"]](holder, message)}  # type: ignore[arg-type]
        except Stopped as stopped:
            answer = {"failure": stopped.failure}
        collect_none()
        # Before the answer, since from then on nobody's time runs. All of it by what these locals hold.
        if message["verb"] not in alone and (changed := look()):
            text = found[0] + changed.encode() + found[1]
            write(reply, pack(size(text)) + text)
            exit_now(0)
        if getpid() != own:
            exit_now(0)  # a copy that the candidate made with fork(): the original answers
        send(reply, answer)


OURS_ALONE = ("ready", "hand in", "perturb")
"""Commands that nothing of a candidate runs in, as the look before has made sure."""
FOUND = (b'{"failure":{"stage":"run","kind":"environment","message":"', b'"}}')
"""A failure in the channel's form, around its words."""


VERBS: dict[str, Callable[[Holder, dict[str, Any]], Any]] = {
    "load": lambda holder, message: holder.load(message["sources"]),
    "renew": lambda holder, _: holder.renew(),
    "accept": lambda holder, _: holder.accept(),
    "ready": lambda holder, message: holder.ready(message["slots"], moved=message["moved"]),
    "hand in": lambda holder, _: holder.hand_in(),
    "record": lambda holder, message: holder.record(message["marks"]),
    "rest": lambda holder, _: holder.rest(),
    "perturb": lambda holder, message: holder.perturb(message["byte"]),
    "allow gradients": lambda holder, _: holder.allow_gradients(),
    "operators": lambda holder, _: holder.operators(),
}


def open_holder(setup: dict[str, Any], fds: tuple[int, int, int]) -> tuple[Holder, Engine]:
    """Maps the judge's memory and makes everything that does not depend on the candidate."""
    torch.set_num_threads(int(setup["threads"]))
    (torch.ones(WARM_ELEMENTS) + 1).exp().sum()  # the pool's threads are there before the candidate is
    # torch's compiler uses it, and its thread would be taken for the candidate's.
    with contextlib.suppress(ImportError):
        importlib.import_module("tqdm").tqdm.monitor_interval = 0
    memory = Memory([place_of(data) for data in setup["places"]], fds, setup["sizes"])
    engine: Engine
    if setup["device"] == "cpu":
        engine = Processor(memory)
    else:
        from kernelwright.judge.witness.cuda import Accelerator

        engine = Accelerator(memory, str(setup["device"]))
    limit_memory(int(setup["memory_bytes"]), on_device=setup["device"] != "cpu")
    gc.collect()
    gc.freeze()
    gc.disable()
    return Holder(memory, engine, setup), engine


def limit_memory(allowed: int, *, on_device: bool) -> None:
    """Bounds what this process may allocate beyond what it has, and the files that it writes."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    if not on_device:  # a driver reserves addresses by the hundred gigabytes
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()  # noqa: SIM115
        resource.setrlimit(resource.RLIMIT_AS, (used + allowed, used + allowed))


def prepare_process() -> None:
    """Ends with what started it; the jail holds it in every other respect."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    prepare_process()
    sys.addaudithook(guard.refuse_hooks)
    recording.operators_of(torch.neg, (torch.ones(1),))
    with contextlib.suppress(BrokenPipeError):
        main(int(sys.argv[1]), int(sys.argv[2]), (int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])))
