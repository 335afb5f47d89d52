"""Which addresses the lanes of a warp use, followed through the instructions that make them.

A heuristic: the code is walked once in its order, with threadIdx.x = 0..31 and everything else that is the same for a
warp taken as an unknown base that is aligned. Loops and branches are not followed, and an address that depends on
loaded data is not known. What comes out is how many banks collide in shared memory and how many 32-byte sectors a
global access touches beyond the fewest possible.
Not here: reading the instructions (sass.py), what follows from it (findings.py).
"""

from __future__ import annotations

import re

from kernelwright.analysis.sass import Instruction
from kernelwright.types import value

LANES = 32
BANKS, BANK_BYTES, SECTOR_BYTES = 32, 4, 32
MASK = (1 << 32) - 1
BASE = "base"
"""A value that is the same in all lanes and otherwise unknown."""
Value = tuple[int, ...] | str | None
"""Of a register: what each lane holds (a base left out), BASE, or None where it is not known."""
REGISTER = re.compile(r"^-?\|?(U?R\d+|U?RZ)(?:\.\w+)*\|?$")
ADDRESS = re.compile(r"\[([^\]]*)\]$")
WIDTHS = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}
ZEROS: Value = (0,) * LANES
SPECIAL = {"SR_TID.X": tuple(range(LANES)), "SR_LANEID": tuple(range(LANES))}
SPACES = {"LDS": "shared", "STS": "shared", "LDG": "global", "STG": "global", "LDGSTS": "global"}


@value
class Access:
    """One memory instruction."""

    space: str
    """shared or global."""
    store: bool
    width_bytes: int
    """Of one lane."""
    line: str
    conflict_ways: int | None
    """Shared: how many words of one bank the worst pass asks for; 1 is free of conflicts. None: not known."""
    sectors: int | None
    """Global: 32-byte sectors of one warp's access."""
    fewest_sectors: int


def accesses(instructions: tuple[Instruction, ...]) -> tuple[Access, ...]:
    """Returns every access to shared and global memory, with what is known of its addresses."""
    registers: dict[str, Value] = {}
    found = []
    for instruction in instructions:
        if instruction.name in SPACES:
            found.append(_access(instruction, registers))
        _step(instruction, registers)
    return tuple(found)


def width_bytes(opcode: str) -> int:
    """Returns how many bytes of each lane a memory instruction moves."""
    parts = [part.lstrip("US") for part in opcode.split(".")[1:]]
    return next((WIDTHS[part] for part in parts if part in WIDTHS), 4)


def conflict_ways(lanes: tuple[int, ...], width: int) -> int:
    """Returns how many different words of one bank the worst pass of a shared access asks for.

    Accesses of 8 and 16 bytes go in passes of 16 and 8 lanes.
    """
    pass_lanes = LANES * BANK_BYTES // max(width, BANK_BYTES)
    worst = 1
    for first in range(0, LANES, pass_lanes):
        words: dict[int, set[int]] = {}
        for address in lanes[first : first + pass_lanes]:
            for word in range(address // BANK_BYTES, (address + width - 1) // BANK_BYTES + 1):
                words.setdefault(word % BANKS, set()).add(word)
        worst = max(worst, *(len(asked) for asked in words.values()))
    return worst


def sectors(lanes: tuple[int, ...], width: int) -> int:
    """Returns how many 32-byte sectors a global access of one warp touches."""
    return len({byte // SECTOR_BYTES for address in lanes for byte in (address, address + width - 1)})


def _access(instruction: Instruction, registers: dict[str, Value]) -> Access:
    space, width = SPACES[instruction.name], width_bytes(instruction.opcode)
    store = instruction.name.startswith("ST")
    texts = [operand for operand in instruction.operands if "[" in operand]
    at = texts[-1] if texts else ""  # LDGSTS [shared], [global]
    lanes = _address(at, registers)
    known = isinstance(lanes, tuple)
    if lanes == BASE:
        lanes, known = (0,) * LANES, True
    exact = lanes if isinstance(lanes, tuple) else ZEROS
    assert isinstance(exact, tuple)
    return Access(
        space=space, store=store, width_bytes=width, line=instruction.line,
        conflict_ways=conflict_ways(exact, width) if known and space == "shared" else None,
        sectors=sectors(exact, width) if known and space == "global" else None,
        fewest_sectors=len({address * width // SECTOR_BYTES for address in range(LANES)}),
    )  # fmt: skip


def _address(operand: str, registers: dict[str, Value]) -> Value:
    match = ADDRESS.search(operand)
    if not match:
        return None
    total: Value = BASE
    for part in match[1].split("+"):
        text, _, scale = part.strip().partition(".X")
        given = _read(text, registers)
        if scale.isdecimal() and isinstance(given, tuple):
            given = tuple(lane * int(scale) for lane in given)
        total = _add(total, given)
    return total


def _read(operand: str, registers: dict[str, Value]) -> Value:
    operand = operand.replace(".reuse", "").strip()
    if re.fullmatch(r"-?0x[0-9a-f]+", operand):
        return (int(operand, 16),) * LANES
    if operand.startswith(("c[", "-c[", "cx[", "desc[")):
        return BASE
    match = REGISTER.match(operand)
    if not match:
        return None
    name = match[1]
    if name in ("RZ", "URZ"):
        return ZEROS
    value_ = registers.get(name, BASE if name.startswith("U") else None)
    if operand.startswith("-") and isinstance(value_, tuple):
        return tuple(-lane for lane in value_)
    return value_


def _step(instruction: Instruction, registers: dict[str, Value]) -> None:
    """Follows one instruction: the register that it writes gets its new value, or none."""
    if not instruction.operands or instruction.name.startswith(("ST", "BAR", "BRA", "RED")):
        return
    match = REGISTER.match(instruction.operands[0])
    if not match or match[1] in ("RZ", "URZ"):
        return
    sources = [o for o in instruction.operands[1:] if not re.fullmatch(r"!?U?P[T\d]+", o)]
    made = _result(instruction, sources, registers)
    if instruction.guard and made is None and match[1] in registers:
        return  # a lane that does not take part keeps its address
    registers[match[1]] = made
    if "WIDE" in instruction.opcode or instruction.opcode.endswith(".64"):
        registers[re.sub(r"\d+", lambda digits: str(int(digits[0]) + 1), match[1])] = BASE


def _result(instruction: Instruction, sources: list[str], registers: dict[str, Value]) -> Value:
    name, opcode = instruction.name, instruction.opcode
    if name in ("S2R", "S2UR", "CS2R"):
        special = sources[0] if sources else ""
        return SPECIAL.get(special, None if "LANE" in special else BASE)
    if name in ("LDC", "ULDC", "LDCU", "R2UR", "UMOV"):
        return BASE if name != "UMOV" else _base(_read(sources[0], registers))
    given = [_read(source, registers) for source in sources]
    if ".HI" in opcode or opcode.endswith(".X") or ".X." in opcode:
        return BASE if all(g is not None for g in given if g != ZEROS) else None  # the upper half of an address
    if name in ("MOV", "IMAD") and "MOV" in opcode:
        return given[-1]
    if name in ("IMAD", "UIMAD") and len(given) >= 3:
        return _add(_multiply(given[0], given[1]), given[2])
    if name in ("IADD3", "VIADD", "IADD", "UIADD3", "IADD64"):
        total: Value = ZEROS
        for part in given:
            total = _add(total, part)
        return total
    if name in ("LEA", "ULEA") and len(given) >= 3 and isinstance(given[2], tuple):
        return _add(_multiply(given[0], (1 << given[2][0],) * LANES), given[1])
    if name in ("SHF", "USHF", "SHL") and len(given) >= 2:
        return _shift(opcode, given)
    if name in ("LOP3", "ULOP3") and len(given) >= 4:
        return _logic(given)
    return None


def _base(given: Value) -> Value:
    return given if isinstance(given, tuple) or given == BASE else None


def _add(a: Value, b: Value) -> Value:
    if a is None or b is None:
        return None
    if isinstance(a, str):
        return b
    return a if isinstance(b, str) else tuple(x + y for x, y in zip(a, b, strict=True))


def _multiply(a: Value, b: Value) -> Value:
    if a is None or b is None:
        return None
    if isinstance(a, tuple) and isinstance(b, tuple):
        return tuple(x * y for x, y in zip(a, b, strict=True))
    lanes = a if isinstance(a, tuple) else b
    # An unknown size times something that differs between lanes could be anything.
    return BASE if isinstance(lanes, str) or len(set(lanes)) == 1 else None


def _shift(opcode: str, given: list[Value]) -> Value:
    number, by = given[0], given[1]
    if number == BASE:
        return BASE
    if not isinstance(number, tuple) or not isinstance(by, tuple):
        return None
    left = ".L" in opcode or opcode.startswith("SHL")
    return tuple((x << (s & 31)) & MASK if left else (x & MASK) >> (s & 31) for x, s in zip(number, by, strict=True))


def _logic(given: list[Value]) -> Value:
    a, b, c, table = given[:4]
    if all(part == BASE or (isinstance(part, tuple) and len(set(part)) == 1) for part in (a, b, c)):
        return BASE if BASE in (a, b, c) else a
    if not (isinstance(a, tuple) and isinstance(b, tuple) and isinstance(c, tuple) and isinstance(table, tuple)):
        return None
    return tuple(_lut(x & MASK, y & MASK, z & MASK, table[0]) for x, y, z in zip(a, b, c, strict=True))


def _lut(x: int, y: int, z: int, table: int) -> int:
    """Each bit of the answer is looked up in the table by the three bits above it (LOP3.LUT)."""
    answer = 0
    for index in range(8):
        if table >> index & 1:
            answer |= (x if index & 4 else ~x) & (y if index & 2 else ~y) & (z if index & 1 else ~z)
    return answer & MASK
