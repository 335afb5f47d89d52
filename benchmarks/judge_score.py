"""Runs `kernelwright selftest` and writes docs/results/judge.md.

python benchmarks/judge_score.py
"""

from __future__ import annotations

import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

from kernelwright.commands.selftest import lines
from kernelwright.selftest import Score, selftest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "results" / "judge.md"


def page(score: Score) -> str:
    """Returns the page's text."""
    target = score.target
    machine = f"{target.device or target.architecture}, {target.threads} threads"
    system = f"{platform.system()} {platform.release()}"
    tools = ", ".join(f"{name} {version}" for name, version in target.toolchain)
    parts = [
        "# The judge's score",
        f"Made by `python benchmarks/judge_score.py` (`kernelwright selftest`) on {datetime.now(UTC):%Y-%m-%d}, in "
        f"{score.seconds:.0f} s.",
        f"{machine}, {system}; {tools}",
        "\n".join(f"- {line}" for line in lines(score)),
    ]
    for kind, title in (
        ("cheat", "Cheats (`tests/cheats`, one trick per file)"),
        ("mutant", "Planted bugs (`tests/mutants`)"),
        ("honest", "Honest kernels (`tests/honest`)"),
    ):
        parts.append(f"{title}: {', '.join(sorted(f.name for f in score.of(kind)))}.")  # type: ignore[arg-type]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Measures, prints and writes the page."""
    score = selftest(tell=lambda text: print(text, file=sys.stderr))
    text = page(score)
    print(text)
    PAGE.write_text(text)
    sys.exit(0 if score.holds else 1)


if __name__ == "__main__":
    main()
