"""Mutations of C-like code: what threads owe each other."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernelwright.mutation.mutant import Edit, edit
from kernelwright.mutation.tokens import Code

BARRIERS = (
    "__syncthreads", "__syncwarp", "__threadfence", "__threadfence_block", "__threadfence_system", "syncthreads",
    "cp_async_wait", "cp_async_wait_all", "cp_async_wait_group", "__pipeline_wait_prior", "atomic_thread_fence",
    "cudaGridDependencySynchronize", "mbarrier_wait", "mbarrier_try_wait", "fence_proxy_async", "barrier_sync",
)  # fmt: skip
METHODS = ("sync", "wait", "arrive_and_wait", "consumer_wait", "producer_acquire", "arrive")
IN_ASSEMBLY = re.compile(r"\b(bar(rier)?(\.\w+)*\.(sync|wait)|mbarrier\.\w*wait|cp\.async\S*wait|wgmma\.wait|fence\.|"
                         r"cp\.async\.bulk\.wait|tcgen05\.wait|griddepcontrol\.wait|setmaxnreg)")  # fmt: skip
CLAUSE = re.compile(r"\s*,?\b(reduction|private|firstprivate|lastprivate|ordered)\s*\([^()]*\)")
ATOMIC_STEPS = {"atomicAdd": "+", "atomicSub": "-", "atomicAnd": "&", "atomicOr": "|", "atomicXor": "^"}
ATOMIC_CHOICES = {"atomicMax": ">", "atomicMin": "<"}
SHUFFLES = {
    "__shfl_down_sync": "__shfl_up_sync", "__shfl_up_sync": "__shfl_down_sync", "__shfl_xor_sync": "__shfl_up_sync",
    "__shfl_sync": "__shfl_xor_sync",
}  # fmt: skip
FULL_MASKS = ("0xffffffff", "0xffffffffu", "0xFFFFFFFF", "0xFFFFFFFFu", "0xffffffffU", "0xFFFFFFFFU")


def missing_barrier(code: Code) -> Iterator[Edit]:
    """Threads do not wait for each other: a barrier, fence or wait is gone."""
    for token in code.tokens:
        if token.kind == "pragma" and re.match(r"[ \t]*#\s*pragma\s+omp\s+(barrier|flush|taskwait)\b", token.text):
            yield edit((token.start, token.stop, ""))
    for index in code.indices(*BARRIERS):
        yield from _without(code, code.qualified(index), index + 1)
    for index in code.indices(*METHODS):
        if code.word(index - 1) in (".", "->", "::") and code.word(index + 1) == "(":
            start = index
            while start and code.word(start - 1) not in (";", "{", "}", "=", "(", ","):
                start = code.match[start - 1] if start - 1 in code.match else start - 1
            yield from _without(code, start, index + 1)
    for index in code.indices("asm", "__asm__"):
        opened = next((i for i in (index + 1, index + 2) if code.word(i) == "("), None)
        if opened in code.match and IN_ASSEMBLY.search(code.span(index, code.match[opened])):
            yield from _without(code, index, opened)


def _without(code: Code, start: int, opened: int) -> Iterator[Edit]:
    """Yields the removal of a call that is a statement of its own."""
    closed = code.match.get(opened)
    if closed is not None and code.word(closed + 1) == ";" and code.starts_statement(start):
        yield edit((*code.place(start, closed + 1), ""))


def race(code: Code) -> Iterator[Edit]:
    """Threads update one place without protection."""
    for token in code.tokens:
        if token.kind == "pragma" and re.search(r"\bomp\s+(critical|atomic|ordered)\b", token.text):
            yield edit((token.start, token.stop, ""))
        if token.kind == "pragma":
            for clause in CLAUSE.finditer(token.text):
                yield edit((token.start + clause.start(), token.start + clause.end(), ""))
    for index, arguments in code.calls(*ATOMIC_STEPS, *ATOMIC_CHOICES):
        stop = code.match[index + 1] + 1
        if len(arguments) != 2 or not code.starts_statement(index) or code.word(stop) != ";":
            continue
        place, amount = (code.span(*part) for part in arguments)
        target = place[1:].strip() if place.startswith("&") else f"*({place})"
        name = code.word(index)
        if name in ATOMIC_STEPS:
            plain = f"{target} {ATOMIC_STEPS[name]}= {amount}"
        else:
            plain = f"if (({amount}) {ATOMIC_CHOICES[name]} {target}) {target} = {amount}"
        yield edit((*code.place(index, stop), plain))


def wrong_reduction(code: Code) -> Iterator[Edit]:
    """A reduction over lanes goes the wrong way, stops one step early, or leaves lanes out."""
    for index in code.indices(*SHUFFLES):
        yield edit((*code.place(index, index + 1), SHUFFLES[code.word(index)]))
    for index, token in enumerate(code.tokens):
        if token.kind == "number" and token.text in FULL_MASKS and "sync" in code.word(index - 2):
            yield edit((token.start, token.stop, "0x0000ffffu"))
    for loop in code.loops:
        step = code.span(*loop.step)
        if re.search(r">>=|/=|/ 2|>> 1", step):
            for index in range(*loop.condition):
                if code.word(index) == ">" and code.word(index + 1) == "0":
                    yield edit((*code.place(index + 1, index + 2), "1"))
            for index in range(*loop.init):
                if code.word(index) == "=":
                    text = code.span(index + 1, loop.init[1])
                    yield edit((*code.place(index + 1, loop.init[1]), f"({text}) / 2"))
