"""A CUDA source alone, without a problem or a plan, to a cubin: for looking at it, never for running it.

It is compiled by a build worker like any candidate, with the gate before; the inspection is left out, since what is
only read may keep state or print.
Not here: candidates (cuda.py).
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from kernelwright.errors import KernelwrightError, UserError
from kernelwright.languages import device_file
from kernelwright.languages.devices import cuda_target
from kernelwright.languages.kernel_file import sources_of
from kernelwright.process import Worker
from kernelwright.types import Artifact, Candidate, Failure, KernelResources, LaunchPlan, value

WORKER = "kernelwright.languages.worker"
DEADLINE_S = 240.0
NUMBERS = re.compile(r"\bblock=(\d+)(?:,(\d+))?(?:,(\d+))?")
SHARED = re.compile(r"\bshared=(\d+)")


@value
class SourceBuild:
    """What a source became."""

    cubin: str
    """The path of the file."""
    resources: tuple[KernelResources, ...]
    blocks: tuple[tuple[str, int], ...]
    """Threads of a block by kernel, where the file's launch lines say it."""
    dynamic_bytes: tuple[tuple[str, int], ...]


def compile_source(path: Path, *, architecture: str) -> SourceBuild:
    """Returns the cubin of a source file in a new temporary folder.

    Raises:
        UserError: when it does not compile, with the compiler's words and line.
        MissingTool: when there is no compiler.
    """
    try:
        target = cuda_target(architecture)
    except ValueError as error:
        raise UserError(str(error), "name one of them with --arch") from None
    sources = sources_of(path)
    options, blocks, dynamic = _said(sources[0].text)
    candidate = Candidate(
        problem="", language="cuda", sources=sources, plan=LaunchPlan(steps=()), options=options, author="person"
    )
    folder = Path(tempfile.mkdtemp(prefix="kernelwright-"))
    with Worker(WORKER) as worker:
        outcome = worker.request(
            "compile_alone", deadline_s=DEADLINE_S, candidate=candidate, target=target, folder=str(folder)
        )
    if isinstance(outcome, Failure):
        raise UserError(f"{outcome.location or path}: {outcome.message}", "mend it, or analyze a cubin")
    if not isinstance(outcome, Artifact):
        raise KernelwrightError(f"a build worker answered with a {type(outcome).__name__}")
    return SourceBuild(cubin=outcome.path, resources=outcome.resources, blocks=blocks, dynamic_bytes=dynamic)


Counts = tuple[tuple[str, int], ...]


def _said(text: str) -> tuple[tuple[tuple[str, str | int | float | bool], ...], Counts, Counts]:
    """The options, and by kernel the threads and dynamic bytes, that a file's comments say."""
    options: list[tuple[str, str | int | float | bool]] = []
    blocks: dict[str, int] = {}
    dynamic: dict[str, int] = {}
    for line in text.splitlines():
        found = device_file.LINE.match(line)
        if found and found["word"] == "options":
            options += [(name, device_file.option_value(given)) for name, given in _pairs(found["rest"])]
        if found and found["word"] == "launch" and (names := [w for w in found["rest"].split() if "=" not in w]):
            if sizes := NUMBERS.search(found["rest"]):
                blocks[names[0]] = int(sizes[1]) * int(sizes[2] or 1) * int(sizes[3] or 1)
            if shared := SHARED.search(found["rest"]):
                dynamic[names[0]] = int(shared[1])
    return tuple(options), tuple(blocks.items()), tuple(dynamic.items())


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(name, given) for name, _, given in (word.partition("=") for word in text.split()) if given]
