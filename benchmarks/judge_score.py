"""Runs `kernelwright selftest` and writes docs/results/judge.md, or judge-gpu-score.md for a GPU.

python benchmarks/judge_score.py
python benchmarks/judge_score.py --device cuda --workers 4      # on a machine with GPUs: each worker takes one in turn
"""

from __future__ import annotations

import argparse
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

from kernelwright.commands.selftest import lines
from kernelwright.selftest import Score, selftest

PAGES = Path(__file__).resolve().parents[1] / "docs" / "results"
PAGE = {"cpu": "judge.md", "cuda": "judge-gpu-score.md"}


def page(score: Score, command: str) -> str:
    """Returns the page's text."""
    target = score.target
    suffix = "" if target.kind == "cpu" else "_cuda"
    machine = f"{target.device or target.architecture}, {target.threads} threads"
    system = f"{platform.system()} {platform.release()}"
    tools = ", ".join(f"{name} {version}" for name, version in target.toolchain)
    parts = [
        "# The judge's score",
        f"Made by `{command}` (`kernelwright selftest`) on {datetime.now(UTC):%Y-%m-%d}, in {score.seconds:.0f} s.",
        f"{machine}, {system}; {tools}",
        "\n".join(f"- {line}" for line in lines(score)),
    ]
    for kind, title in (
        ("cheat", f"Cheats (`tests/cheats{suffix}`, one trick per file)"),
        ("mutant", "Planted bugs (`tests/mutants`)"),
        ("honest", f"Honest kernels (`tests/honest{suffix}`)"),
    ):
        parts.append(f"{title}: {', '.join(sorted(f.name for f in score.of(kind)))}.")  # type: ignore[arg-type]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Measures, prints and writes the page."""
    parser = argparse.ArgumentParser(description="the judge's score, as a page")
    parser.add_argument("--device", choices=sorted(PAGE), default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    score = selftest(
        device=chosen.device, workers=chosen.workers, tell=lambda text: print(text, file=sys.stderr, flush=True)
    )
    options = "" if chosen.device == "cpu" else f" --device {chosen.device} --workers {chosen.workers}"
    text = page(score, f"python benchmarks/judge_score.py{options}")
    print(text)
    (chosen.out or PAGES / PAGE[chosen.device]).write_text(text)
    sys.exit(0 if score.holds else 1)


if __name__ == "__main__":
    main()
