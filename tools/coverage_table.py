"""Writes docs/coverage.md: which operators the experts know, and which graphs each of them takes.

Everything on the page comes from the tables that the experts read graphs with, and from their docstrings.
Run `python tools/coverage_table.py` after changing an expert; a test fails while the page is old.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from kernelwright.experts import EXPERTS, MOST_CUT_NODES, MOST_NODES
from kernelwright.experts.read import POINTWISE
from kernelwright.experts.read_folds import FOLDS
from kernelwright.experts.read_views import VIEWS
from kernelwright.experts.read_windows import WINDOWS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "coverage.md"
HEAD = f"""# What the experts cover

`kernelwright optimize` searches where an expert takes the whole operator graph of a reference; elsewhere it names the
operator that is in the way and times the baselines. `kernelwright show SOURCE` says which experts take it, `--graph`
prints the operators. A kernel for anything else can be written by hand (`show --skeleton`) and judged. No expert takes
sizes that vary, or more than {MOST_NODES} operators ({MOST_CUT_NODES} on a GPU, where a program is cut first). This
page is written by `tools/coverage_table.py`.

## Operators of the loop experts

A graph made of these only, in any order and number, is taken on the CPU and on a GPU (exceptions stand below). They
are PyTorch's names after decomposition: `torch.nn.functional.mse_loss`, say, arrives as `sub`, `pow` and `mean`. An
option that an operator's reader does not know is refused by name; so is arithmetic in integers of less than 32 bits.
"""
GROUPS = (
    ("pointwise", POINTWISE),
    ("views and look-ups", VIEWS),
    ("reductions, normalisations, scans", FOLDS),
    ("windows and bags, on a GPU only", WINDOWS),
)
TARGETS = {"cpu": "on the CPU", "cuda": "on a GPU"}


def page() -> str:
    """Returns the whole page."""
    parts = [HEAD, "\n| group | operators |\n|---|---|\n"]
    parts += [f"| {name} | {_names(table)} |\n" for name, table in GROUPS]
    for kind, modules in EXPERTS.items():
        parts.append(f"\n## Experts {TARGETS[kind]}\n")
        parts += [f"\n### {name.removeprefix('gpu.')}\n\n{_said(name)}\n" for name in modules]
    return "".join(parts)


def _names(operators: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(name.removeprefix("aten.") for name in operators))


def _said(name: str) -> str:
    """Returns what an expert says about itself."""
    return inspect.getdoc(import_module(f"kernelwright.experts.{name}")) or ""


if __name__ == "__main__":
    PAGE.write_text(page())
