"""Our own native programs, such as the judge's runner: built once and kept.

Not here: candidates (cpp.py): these sources are ours and are not inspected.
"""

from __future__ import annotations

import os
from pathlib import Path

from kernelwright import environment
from kernelwright.errors import KernelwrightError, MissingTool
from kernelwright.languages import bounded, cache
from kernelwright.languages.hardware import BAD_COMPILER, cpu_identity, find_compiler
from kernelwright.types import digest

FORMAT = 1
PROGRAM = "program"
FLAGS = ("-std=c++17", "-O2", "-fdiagnostics-color=never")


def build_program(source_path: Path, *, flags: tuple[str, ...] = ()) -> Path:
    """Returns the path of an executable made from one C++ file, building it when it is not there yet.

    Args:
        source_path: a file that includes nothing but system headers.
        flags: further flags, such as `-ldl`; they come after the source, as libraries must.

    Raises:
        MissingTool: when there is no compiler.
        KernelwrightError: when the source does not compile, with the compiler's first words.
    """
    compiler, text = find_compiler(), source_path.read_text()
    key = digest((FORMAT, source_path.name, text, FLAGS, flags, compiler, cpu_identity()))
    place = environment.home() / "programs" / key.replace(":", "-")
    program, proof = place / PROGRAM, place / "sha256"
    if _is_whole(program, proof):
        return program
    cache.prepare(place)
    with cache.private_folder() as made:
        (made / source_path.name).write_text(text)
        ended = bounded.run(
            [compiler.path, *FLAGS, source_path.name, "-o", PROGRAM, *flags],
            folder=made, temporary=made / "temporary", limits=bounded.Limits(),
        )  # fmt: skip
        if ended.status != 0:
            fix = f"report this with the output of {compiler.path} --version"
            raise KernelwrightError(f"{source_path.name} does not compile: {ended.output[:2000]}", fix)
        if not (made / PROGRAM).is_file():
            raise MissingTool(f"the C++ compiler {compiler.path} made no program from {source_path.name}", BAD_COMPILER)
        (made / "sha256").write_text(cache.blob_digest(made / PROGRAM))
        # The proof comes last: until it is there and agrees, the program counts as missing.
        os.replace(made / PROGRAM, program)
        os.replace(made / "sha256", proof)
    return program


def _is_whole(program: Path, proof: Path) -> bool:
    try:
        return proof.read_text() == cache.blob_digest(program)
    except OSError:
        return False
