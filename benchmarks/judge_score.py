"""Runs every cheat and every honest kernel through the judge and writes docs/results/judge.md.

python benchmarks/judge_score.py
"""

from __future__ import annotations

import platform
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

from kernelwright import languages

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "results" / "judge.md"
TESTS = ("tests/judge/test_cheats.py", "tests/judge/test_honest.py")


def outcomes() -> dict[str, dict[str, bool]]:
    """Returns for the two test files which kernel came out as it must."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "results.xml")
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", f"--junitxml={path}", *TESTS], cwd=ROOT, check=False,
        )  # fmt: skip
        found: dict[str, dict[str, bool]] = {"cheat": {}, "honest": {}}
        for case in ElementTree.parse(path).iter("testcase"):
            test, _, kernel = case.attrib["name"].partition("[")
            kind = next((kind for kind in found if kind in test), None)
            if kind and kernel:
                found[kind][kernel.rstrip("]")] = not any(case.findall(tag) for tag in ("failure", "error", "skipped"))
    return found


def main() -> None:
    """Measures, prints and writes the page."""
    found = outcomes()
    target = languages.detect_target()
    cheats, honest = found["cheat"], found["honest"]
    missed = [name for name, caught in cheats.items() if not caught]
    alarms = [name for name, passed in honest.items() if not passed]
    lines = [
        "# The judge's score",
        "",
        f"Made by `python benchmarks/judge_score.py` on {datetime.now(UTC):%Y-%m-%d}.",
        "",
        f"{target.architecture}, {target.threads} threads, {platform.system()} {platform.release()}; "
        + ", ".join(f"{name} {version}" for name, version in target.toolchain),
        "",
        f"- cheats caught by the check that they name: {len(cheats) - len(missed)} of {len(cheats)}",
        f"- missed: {', '.join(missed) or 'none'}",
        f"- false alarms: {len(alarms)} of {len(honest)} honest kernels",
        f"- falsely refused: {', '.join(alarms) or 'none'}",
        "",
        f"Cheats (`tests/cheats`, one trick per file): {', '.join(sorted(cheats))}.",
        "",
        f"Honest (`tests/honest`): {', '.join(sorted(honest))}.",
        "",
    ]
    print("\n".join(lines))
    PAGE.write_text("\n".join(lines))
    sys.exit(1 if missed or alarms else 0)


if __name__ == "__main__":
    main()
