"""The CPU ring: a tile candidate's plan run on the CPU, in a process of its own, to debug it where there is no GPU.

Triton candidates run in Triton's own interpreter (TRITON_INTERPRET=1), cuTile candidates in
kernelwright.tile_interpreter, which also reports races, accesses outside arrays and undefined values. Contents travel
as raw bytes, so that whoever asks needs no NumPy. Not here: the process (kernelwright.tiles.interpreting), and
judging: what the CPU computes is no verdict.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kernelwright import codec
from kernelwright.errors import UserError
from kernelwright.languages import author_code, cutile, triton
from kernelwright.languages.author_code import LIMITS
from kernelwright.languages.bounded import Limits
from kernelwright.languages.tile_arguments import PlanFault
from kernelwright.types import Candidate, Failure, Problem

WORKERS = {"triton": "kernelwright.tiles.triton_interpret", "cutile": "kernelwright.tiles.cutile_interpret"}
INPUTS, OUTPUTS, REPORT = "inputs", "outputs", "report.json"


class Interpreted(NamedTuple):
    """What a plan did on the CPU."""

    outputs: dict[str, bytes]
    """By output: its elements, row-major, as the dtype's own bytes (bfloat16: 2 each)."""
    findings: tuple[str, ...]
    """What the cuTile interpreter found, one line each: `kernel.py:12: error: race: ...`."""


def interpret(
    problem: Problem,
    candidate: Candidate,
    inputs: Mapping[str, bytes],
    *,
    seed: int = 0,
    limits: Limits = LIMITS,
) -> Interpreted | Failure:
    """Returns what a candidate's plan computes on the CPU.

    Args:
        problem: what is computed; axes have their own sizes.
        candidate: of language triton or cutile.
        inputs: for every input and parameter its elements, row-major, as the dtype's own bytes.
        seed: decides the order in which cuTile blocks run.
        limits: what the process may use.

    Raises:
        UserError: for another language, or inputs that do not fit the problem.
        MissingTool: when the language's compiler is not installed.
    """
    if candidate.language not in WORKERS:
        raise UserError(f"{candidate.language} candidates cannot be interpreted", f"known are {', '.join(WORKERS)}")
    for tensor in problem.inputs + problem.parameters:
        if tensor.name not in inputs:
            raise UserError(f"there are no contents for {tensor.name!r}", "give the bytes of every input and parameter")
    language = triton if candidate.language == "triton" else cutile
    try:
        language.match(candidate)
    except PlanFault as fault:
        return fault.failure()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        author_code.write_sources(candidate, folder)
        (folder / INPUTS).mkdir()
        (folder / OUTPUTS).mkdir()
        for name, content in inputs.items():
            (folder / INPUTS / name).write_bytes(content)
        request = {"problem": problem, "candidate": candidate, "seed": seed}
        (folder / author_code.REQUEST).write_text(codec.dumps(request))
        ended = author_code.run_module(
            WORKERS[candidate.language], folder, limits=limits, environment=(("TRITON_INTERPRET", "1"),)
        )
        try:
            report = codec.loads((folder / REPORT).read_text())
            if isinstance(report, Failure):
                return report
            outputs = {tensor.name: (folder / OUTPUTS / tensor.name).read_bytes() for tensor in problem.outputs}
        except (OSError, codec.CodecError):
            return author_code.ended_badly(ended, limits)
        return Interpreted(outputs=outputs, findings=tuple(map(str, report)))
