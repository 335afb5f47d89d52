"""The instructions of a library, read with objdump.

Sections are decoded from their first byte on, and every address that a direct jump, call or
address computation names must begin an instruction of that decoding. By induction, whatever is
reached without a computed address was looked at.
Not here: the rest of the library (inspection.py, which also says what this cannot see).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from kernelwright.errors import MissingTool

DEADLINE_S = 60.0
ROW = re.compile(r"^\s*([0-9a-f]+):\t(\S+)\s*(.*)$")
LABEL = re.compile(r"^[0-9a-f]+ <(.*)>:$")
DIRECT = re.compile(r"^(?:\*)?([0-9a-f]+) <")
"""A jump's or call's own operand: an absolute address and its symbol."""
NAMED = re.compile(r"# ([0-9a-f]+)(?: <|$)")
"""objdump's comment on an address relative to the instruction pointer."""
LOADS_ADDRESS = re.compile(r"lea\b")
_PREFIXES = "rep repz repnz lock bnd notrack data16 addr32 cs ds es ss fs gs rex rex.W xacquire xrelease"
PREFIXES = frozenset(_PREFIXES.split())
REFUSED = (
    # x86: ways into the kernel or another privilege level
    (re.compile(r"syscall|sysenter|sysexit\w*|sysret\w*|int|into|int1|icebp|iret\w*|lcall\w*|ljmp\w*|lret\w*|vmcall|vmmcall"
                r"|vmfunc|enclu|senduipi|getsec|encls"), "enters the kernel or changes privilege"),
    (re.compile(r"rdtscp?|rdpmc|rdpru|rdpid|tpause|umwait|mwaitx?"), "reads a clock or waits for one"),
    (re.compile(r"(rd|wr)(fs|gs)base[lq]?|(rd|wr)pkru|xrstor\w*|wrss\w*|wruss\w*|setssbsy|(in|out)s?[bwl]?|hlt|cli|sti"
                r"|mov[wlq]?sr|stui|clui"), "changes protection or devices"),
    (re.compile(r"\(bad\)|\.byte|\.word|\.inst|\.long"), "is no instruction"),
    # ARM: supervisor, hypervisor and monitor calls
    (re.compile(r"svc|hvc|smc|dcps[123]|eret\w*"), "enters the kernel or changes privilege"),
)  # fmt: skip
ARM_SYSTEM = re.compile(r"(cntv?p?ct(ss)?_el0|cntpct_el0|cntvct_el0|pm\w+_el0|tpidr_el0|s3_\d+_c\d+_c\d+_\d+)")


def check(path: Path, sections: Iterable[str], targets: Iterable[int] = ()) -> str:
    """Returns the first fault of a library's instructions in one line; empty where there is none.

    Args:
        path: the library.
        sections: names of its executable sections.
        targets: further addresses that must begin an instruction.

    Raises:
        MissingTool: when objdump is not installed.
    """
    program = shutil.which("objdump")
    if program is None:
        raise MissingTool("objdump is missing; libraries cannot be inspected", "apt-get install binutils")
    chosen = [argument for name in sections for argument in ("-j", name)]
    if not chosen:
        return "there is no code"
    # -D: data symbols are decoded too; -z: so are runs of zeros.
    command = [program, "-D", "-z", "-w", "--no-show-raw-insn", *chosen, str(path)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DEADLINE_S, env={"LC_ALL": "C"}, check=True
        )
    except (subprocess.SubprocessError, OSError) as error:
        return f"cannot be decoded by objdump: {error}"
    return check_text(done.stdout, targets)


def check_text(text: str, targets: Iterable[int] = ()) -> str:
    """Returns the first fault in objdump's text; empty where there is none."""
    starts: set[int] = set()
    named: list[tuple[int, str, str]] = [(target, "an address that the library hands out", "") for target in targets]
    function = ""
    for line in text.splitlines():
        if label := LABEL.match(line):
            function = label[1]
            continue
        row = ROW.match(line)
        if row is None:
            continue
        address, mnemonic, operands = int(row[1], 16), row[2], row[3]
        while mnemonic in PREFIXES and operands:
            mnemonic, _, operands = operands.partition(" ")
            operands = operands.strip()
        starts.add(address)
        if fault := _instruction_fault(mnemonic, operands):
            return f"{mnemonic} {operands}".strip() + f" in {function} {fault}"
        named += [(target, f"{mnemonic} in {function}", function) for target in _named_addresses(mnemonic, operands)]
    if not starts:
        return "no instruction could be decoded"
    low, high = min(starts), max(starts)
    for target, what, _ in named:
        if low <= target <= high and target not in starts:
            return f"{what} points into the middle of an instruction ({target:#x})"
    return ""


def _instruction_fault(mnemonic: str, operands: str) -> str:
    for pattern, reason in REFUSED:
        if pattern.fullmatch(mnemonic):
            return reason
    if mnemonic in ("mrs", "msr") and ARM_SYSTEM.search(operands.lower()) and "tpidr_el0" not in operands.lower():
        return "reads a clock or counter"
    if mnemonic == "msr" and "tpidr" in operands.lower():
        return "changes protection or devices"
    return ""


def _named_addresses(mnemonic: str, operands: str) -> list[int]:
    if direct := DIRECT.match(operands):
        return [int(direct[1], 16)]
    if LOADS_ADDRESS.match(mnemonic) and (found := NAMED.search(operands)):
        return [int(found[1], 16)]
    return []
