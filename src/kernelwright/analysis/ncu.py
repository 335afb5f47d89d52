"""A profile by Nsight Compute (`ncu`), run as a child process and read as text.

`ncu` is a program of the CUDA toolkit, not of any wheel. Counters need the right to read them, which many machines
give to administrators only; what is missing is said, and the static analysis is the next best source.
Not here: what the rules mean (they are NVIDIA's), and the static analysis (findings.py).
"""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence

from kernelwright.errors import MissingTool, UserError
from kernelwright.types import replace, value

PERMISSION = "ERR_NVGPUCTRPERM"
DEADLINE_S = 600.0
UNITS = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
TIME = re.compile(r"([num]?)s(?:econd)?")
RATE = re.compile(r"([KMGT]?)(?:byte|B)/s(?:econd)?")
COLUMNS = ("Kernel Name", "Section Name", "Rule Name", "Rule Type", "Rule Description", "Estimated Speedup")
MEASURED = ("ID", "Kernel Name", "Metric Name", "Metric Unit", "Metric Value")
ARGUMENTS = (
    "--set", "full", "--clock-control", "none", "--cache-control", "all", "--csv", "--page", "details",
    "--print-rule-details", "--target-processes", "all",
)  # fmt: skip


@value
class Rule:
    """One of ncu's rule results."""

    kernel: str
    section: str
    name: str
    text: str
    speedup_percent: float | None
    """What ncu estimates could be gained; None where it does not say."""


@value
class Launched:
    """One kernel launch as ncu saw it: with cold caches, alone, at whatever clocks the device had."""

    kernel: str
    duration_us: float | None = None
    memory_bytes_per_s: float | None = None
    """To and from device memory."""


@value
class Profile:
    """What ncu said of a command."""

    rules: tuple[Rule, ...]
    launches: tuple[Launched, ...]


def profile(command: Sequence[str]) -> Profile:
    """Returns ncu's rule results for the kernels that a command launches, and how long each took.

    Raises:
        MissingTool: where there is no ncu.
        UserError: where counters are not permitted, there is no GPU, or the command fails; the fix says what to do.
    """
    program = shutil.which("ncu")
    if program is None:
        raise MissingTool(
            "there is no ncu on this machine: kernels can only be profiled with Nsight Compute",
            "install nsight-compute (with the CUDA toolkit); without --profile the analysis needs none",
        )
    whole = [program, *ARGUMENTS, *command]
    try:
        done = subprocess.run(whole, capture_output=True, text=True, errors="replace", timeout=DEADLINE_S, check=False)
    except subprocess.TimeoutExpired:
        raise UserError(f"ncu took longer than {DEADLINE_S:.0f} s", "profile fewer launches") from None
    refuse(done.stdout + done.stderr)
    found = Profile(rules=read_rules(done.stdout), launches=read_launches(done.stdout))
    if done.returncode != 0 and not found.rules:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise UserError(
            f"ncu failed: {said[-1][:300] if said else 'it said nothing'}", "run the command without ncu first"
        )
    return found


def refuse(said: str) -> None:
    """Raises what ncu's own words mean for the user.

    Raises:
        UserError: where counters are not permitted, or no kernel or device was seen.
    """
    if PERMISSION in said:
        raise UserError(
            "this machine does not permit reading the GPU's counters (ERR_NVGPUCTRPERM)",
            "ask an administrator for NVreg_RestrictProfilingToAdminUsers=0; the next best sources are the analysis "
            "without --profile, and `kernelwright judge` for times",
        )
    if "No kernels were profiled" in said:
        raise UserError("ncu saw no kernel", "check that the command launches one on this machine's GPU")
    if "Failed to load libcuda" in said or "no CUDA-capable device" in said or "Driver not found" in said:
        raise UserError("there is no GPU, or no driver, to profile on", "`kernelwright doctor` says what is missing")


def read_rules(text: str) -> tuple[Rule, ...]:
    """Returns the rule results in ncu's CSV output, the largest estimated gain first.

    Lines before the table (the program's own output, ncu's ==PROF== lines) are passed over, and rows without a rule.
    """
    found = []
    for row in _rows(text):
        if not row.get("Rule Name"):
            continue
        kernel, section, name, _, description, speedup = (row.get(column) or "" for column in COLUMNS)
        found.append(
            Rule(
                kernel=kernel, section=section, name=name, text=" ".join(description.split()),
                speedup_percent=_number(speedup),
            )
        )  # fmt: skip
    unique = {(rule.kernel, rule.name, rule.text): rule for rule in found}
    return tuple(sorted(unique.values(), key=lambda rule: -(rule.speedup_percent or 0.0)))


def read_launches(output: str) -> tuple[Launched, ...]:
    """Returns every launch in ncu's CSV output, in order, with what was measured of it in whatever unit."""
    found: dict[str, Launched] = {}
    for row in _rows(output):
        place, kernel, name, unit, text = (row.get(column) or "" for column in MEASURED)
        launch, number = found.setdefault(place, Launched(kernel=kernel)), _number(text)
        # The section of limits has a throughput of that name too, in per cent.
        if name == "Duration" and number is not None and (time := TIME.fullmatch(unit)):
            found[place] = replace(launch, duration_us=1e6 * number * UNITS[time[1]])
        elif name == "Memory Throughput" and number is not None and (rate := RATE.fullmatch(unit)):
            found[place] = replace(launch, memory_bytes_per_s=number * UNITS[rate[1]])
    return tuple(found.values())


def _rows(text: str) -> Iterator[dict[str, str]]:
    lines = text.splitlines()
    start = next((n for n, line in enumerate(lines) if '"Kernel Name"' in line and '"Rule Name"' in line), len(lines))
    yield from csv.DictReader(io.StringIO("\n".join(lines[start:])))


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", "").rstrip("%"))
    except ValueError:
        return None
