"""Machine code as nvdisasm prints it: instructions with the source line of each.

Works with no GPU and no driver. The printed form has no specification: what cannot be read is left out, and a
kernel of which nothing can be read is an error.
Not here: what the instructions mean (addresses.py, findings.py).
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from kernelwright.errors import KernelwrightError, MissingTool
from kernelwright.types import value

ANSWER_S = 120.0
SECTION = re.compile(r"^//-+ \.text\.(\S+)\s+-+$")
LINE = re.compile(r'^\s*//## File "([^"]*)", line (\d+)(?: inlined at "([^"]*)", line (\d+))?')
INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P[T\d]+)\s+)?([A-Z][A-Z0-9_.]*)\s*(.*?)\s*;")
LABEL = re.compile(r"^(\.L_[\w$]+):")
INSTALL = f"{sys.executable} -m pip install 'kernelwright[compile]'"


@value
class Instruction:
    """One machine instruction."""

    offset: int
    opcode: str
    """With its suffixes: LDG.E.128."""
    operands: tuple[str, ...]
    guard: str
    """The predicate that it depends on, empty where it always runs."""
    line: str
    """file:line, empty where it is not known."""

    @property
    def name(self) -> str:
        """The opcode without suffixes."""
        return self.opcode.split(".")[0]


def disassemble(cubin: Path) -> dict[str, tuple[Instruction, ...]]:
    """Returns the instructions of every function in a cubin, by symbol.

    Raises:
        MissingTool: where there is no nvdisasm.
        KernelwrightError: when it fails on this file.
    """
    command = [find_tool("nvdisasm"), "-c", "-gi", str(cubin)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise KernelwrightError(f"nvdisasm could not be run: {error}", "`kernelwright doctor` tries it") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        fix = f"a newer one may read it: {INSTALL} --upgrade"
        raise KernelwrightError(f"nvdisasm fails on {cubin.name}: {said[0][:200] if said else 'silently'}", fix)
    return parse(done.stdout)


def parse(text: str) -> dict[str, tuple[Instruction, ...]]:
    """Returns the instructions in nvdisasm's text, by function."""
    found: dict[str, list[Instruction]] = {}
    symbol = place = ""
    for line in text.splitlines():
        if section := SECTION.match(line):
            symbol, place = section[1], ""
            found[symbol] = []
        elif at := LINE.match(line):
            place = f"{at[1].removeprefix('/')}:{at[2]}"
        elif symbol and (match := INSTRUCTION.match(line)):
            operands = tuple(part.strip() for part in _split(match[4]))
            instruction = Instruction(
                offset=int(match[1], 16), opcode=match[3], operands=operands, guard=match[2] or "", line=place
            )
            found[symbol].append(instruction)
    return {symbol: tuple(instructions) for symbol, instructions in found.items()}


def _split(text: str) -> Iterator[str]:
    """Operands: the parts between commas outside brackets."""
    depth, part = 0, ""
    for character in text:
        depth += {"[": 1, "{": 1, "(": 1, "]": -1, "}": -1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            yield part
            part = ""
        else:
            part += character
    if part.strip():
        yield part


def find_tool(name: str) -> str:
    """Returns the path of one of NVIDIA's tools: of a wheel, of triton, or of a toolkit.

    Raises:
        MissingTool: where there is none.
    """
    found = _find(name)
    if not found:
        raise MissingTool(f"there is no {name} on this machine", INSTALL)
    return found


@functools.cache
def _find(name: str) -> str:
    folders = [Path(entry) for entry in sys.path if entry]
    places = [path for folder in folders for path in folder.glob(f"nvidia/cu1[0-9]/bin/{name}")]
    places += [path for folder in folders for path in folder.glob(f"triton/backends/nvidia/bin/{name}")]
    places += [Path("/usr/local/cuda/bin", name)]
    whole = [str(path) for path in places if path.is_file()]
    return whole[0] if whole else shutil.which(name) or ""
