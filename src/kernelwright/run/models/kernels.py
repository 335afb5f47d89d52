"""From the text in a reply to a candidate, and from its free parameters to a template.

Not here: what is in a reply (llm/answers.py), and whether a candidate is worth judging (screening.py).
"""

from __future__ import annotations

import functools
import re
import tempfile
from pathlib import Path

from kernelwright.errors import UserError
from kernelwright.experts.gpu.cuda import device_header
from kernelwright.experts.products import gemm_header
from kernelwright.experts.simd import simd_header
from kernelwright.languages import candidate_from_file
from kernelwright.llm.tunables import tunables, with_point
from kernelwright.types import Candidate, Failure, Point, Problem, Space, Template, digest, replace

FILES = {"cpp": "kernel.cpp", "cuda": "kernel.cu", "triton": "kernel.py", "cutile": "kernel.py"}
HEADERS = (simd_header(), gemm_header(), device_header())
"""What the experts' kernels include, and so whatever is written after their example."""
FUNCTION = re.compile(r"^(?:template ?<[^\n]*>\s*)?KW_INLINE\s[^\n(]*?\b(\w+)\(", re.MULTILINE)
MOST_CHARACTERS = 200_000
SHOWN_CHARACTERS = 24_000
"""Of one kernel in a prompt."""


def candidate_of(
    problem: Problem, code: str, *, language: str, author: str, parents: tuple[str, ...] = ()
) -> Candidate:
    """Returns the candidate that a file's text describes, at the written values of its free parameters.

    Raises:
        UserError: when the text is no kernel file; the message is fit for a prompt.
    """
    if len(code) > MOST_CHARACTERS:
        raise UserError(f"the file has {len(code):,} characters", f"write at most {MOST_CHARACTERS:,}")
    point = tuple((p.name, p.values[0]) for p in tunables(code))
    # A folder of its own: there is nothing in it that the file could include but what experts' kernels do.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / FILES[language]
        path.write_text(with_point(code, point), encoding="utf-8")
        for header in (h for h in HEADERS if f'#include "{h.path}"' in code):
            path.with_name(header.path).write_text(header.text, encoding="utf-8")
        try:
            candidate = candidate_from_file(problem, path)
        except UserError as error:
            raise UserError(error.message.replace(f"{folder}/", ""), error.fix.replace(f"{folder}/", "")) from None
    if candidate.witnessed:
        raise UserError("the file is plain Python, which is not sealed", "write kernels with launch comments")
    return replace(candidate, author=author, parents=parents, point=point)


def shown(candidate: Candidate) -> str:
    """Returns a candidate's files as one text for a prompt, of the experts' headers only what can be called.

    Such a header has ten thousand tokens, stands behind every kernel of the experts, and could not be edited anyway.
    """
    first, *others = candidate.sources
    text = first.text
    for source in others:
        if source in HEADERS:
            names = ", ".join(dict.fromkeys(FUNCTION.findall(source.text)))
            text += f"\n// {source.path} can be included; functions in namespace kw: {names}\n"
        else:
            text += f"\n// ---- {source.path}\n{source.text}"
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "\n// (cut off here)\n"


def own_text(candidate: Candidate) -> str:
    """Returns a candidate's files as one text, without the experts' headers: what its author wrote."""
    return "\n".join(source.text for source in candidate.sources if source not in HEADERS)


def template_of(problem: Problem, code: str, candidate: Candidate, *, language: str) -> Template | None:
    """Returns the kernel's free parameters as a template, None where it has none."""
    parameters = tunables(code)
    if not parameters:
        return None
    emit = functools.partial(_emit, problem, code, language, candidate)
    return Template(name=f"tuned {digest(candidate)[3:11]}", space=Space(parameters=parameters), emit=emit)


def _emit(problem: Problem, code: str, language: str, origin: Candidate, point: Point) -> Candidate | Failure:
    try:
        made = candidate_of(
            problem, with_point(code, point), language=language, author=origin.author, parents=(digest(origin),)
        )
    except UserError as error:
        return Failure(stage="emit", kind="parameters", message=str(error))
    return replace(made, point=point)
