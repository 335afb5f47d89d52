"""A profile by Nsight Compute (`ncu`), run as a child process and read as text.

`ncu` is a program of the CUDA toolkit, not of any wheel. Counters need the right to read them, which many machines
give to administrators only; what is missing is said, and the static analysis is the next best source.
Not here: what the rules mean (they are NVIDIA's), and the static analysis (findings.py).
"""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from collections.abc import Sequence

from kernelwright.errors import MissingTool, UserError
from kernelwright.types import value

PERMISSION = "ERR_NVGPUCTRPERM"
DEADLINE_S = 600.0
COLUMNS = ("Kernel Name", "Section Name", "Rule Name", "Rule Type", "Rule Description", "Estimated Speedup")
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


def profile(command: Sequence[str]) -> tuple[Rule, ...]:
    """Returns ncu's rule results for the kernels that a command launches, the largest estimated gain first.

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
    found = read_rules(done.stdout)
    if done.returncode != 0 and not found:
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
            "ask an administrator for NVreg_RestrictProfilingToAdminUsers=0, or use the analysis without --profile",
        )
    if "No kernels were profiled" in said:
        raise UserError("ncu saw no kernel", "check that the command launches one on this machine's GPU")
    if "Failed to load libcuda" in said or "no CUDA-capable device" in said or "Driver not found" in said:
        raise UserError("there is no GPU, or no driver, to profile on", "`kernelwright doctor` says what is missing")


def read_rules(text: str) -> tuple[Rule, ...]:
    """Returns the rule results in ncu's CSV output, the largest estimated gain first.

    Lines before the table (the program's own output, ncu's ==PROF== lines) are passed over, and rows without a rule.
    """
    lines = text.splitlines()
    start = next((n for n, line in enumerate(lines) if '"Kernel Name"' in line and '"Rule Name"' in line), None)
    if start is None:
        return ()
    found = []
    for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))):
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


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", "").rstrip("%"))
    except ValueError:
        return None
