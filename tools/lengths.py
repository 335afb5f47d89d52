"""Prints file and function lengths of the source and fails where a limit is passed.

Limits: a file 500 lines (aim at 100-250), a function 60 lines, the package TOTAL lines.
Raising a limit needs a decision note in docs/decisions/.
"""

from __future__ import annotations

import ast
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "src" / "kernelwright"
FILE_LIMIT = 500
FUNCTION_LIMIT = 60
TOTAL_LIMIT = 80_000


def main() -> int:
    """Returns 1 when a limit is passed, after naming each place."""
    files: dict[Path, int] = {}
    functions: list[tuple[int, str]] = []
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text()
        files[path] = text.count("\n")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                functions.append((length, f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"))
    total = sum(files.values())
    functions.sort()
    ninetieth = functions[int(0.9 * len(functions))][0] if functions else 0
    print(f"{len(files)} files, {total} lines (limit {TOTAL_LIMIT}); median {statistics.median(files.values()):.0f},")
    print(f"longest {max(files.values())} (limit {FILE_LIMIT}); functions: p90 {ninetieth}, limit {FUNCTION_LIMIT}")
    faults = [f"{p.relative_to(ROOT)}: {n} lines" for p, n in files.items() if n > FILE_LIMIT]
    faults += [f"{where}: {length} lines" for length, where in functions if length > FUNCTION_LIMIT]
    faults += [f"the package: {total} lines"] if total > TOTAL_LIMIT else []
    print("\n".join(f"too long: {fault}" for fault in faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
