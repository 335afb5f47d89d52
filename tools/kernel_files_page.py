"""Writes docs/kernel-files.md: the form of a kernel that a person writes, for `kernelwright judge`.

Everything on the page comes from the docstrings and tables of the readers and compilers.
Run `python tools/kernel_files_page.py` after changing one; a test fails while the page is old.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from kernelwright.languages import cpp, cuda, device_file, gate, kernel_file, tile_file

PAGE = Path(__file__).resolve().parents[1] / "docs" / "kernel-files.md"
HEAD = """# Kernel files

`kernelwright show SOURCE --skeleton > mine.cpp` (`--language cuda` for a `.cu`) writes a file with the right signature;
`kernelwright judge SOURCE mine.cpp` judges it, `--policy screen` quickly. `examples/softmax.cpp` is a complete one.
Tensors are contiguous, row-major and 64-byte aligned; inputs cannot be written, outputs hold no zeros at first, and
a call may not rely on an earlier one. This page is written by `tools/kernel_files_page.py`.
"""
PYTHON = """## Python (.py)

A file that defines `ModelNew`, a module with the constructor and `forward` of the reference's `Model`, or a function of
the reference's name, is judged as **witnessed**: its own Python runs where it is timed. The CPU only, so far.
"""


def page() -> str:
    """Returns the whole page."""
    parts = [
        HEAD, f"## C++ (.cpp)\n\n{_said(kernel_file)}\n", f"Compiled with `{' '.join(cpp.BASE_FLAGS)}`.\n",
        _options(cpp.OPTIONS), f"Headers: {', '.join(f'`{name}`' for name in sorted(gate.HEADERS))}.\n",
        f"## CUDA C++ (.cu)\n\n{_said(device_file)}\n", _options(cuda.OPTIONS),
        f"## Triton and cuTile (.py)\n\n{_said(tile_file)}\n", PYTHON,
        f"## What C++ and CUDA C++ may hold\n\n{_said(gate)}\n",
    ]  # fmt: skip
    return "\n".join(parts)


def _said(module: ModuleType) -> str:
    """Returns a module's docstring without what it says about other modules."""
    return (inspect.getdoc(module) or "").partition("Not here:")[0].strip()


def _options(table: Mapping[str, tuple[str, Any, Any]]) -> str:
    rows = [f"| `{name}` | {what} | {_default(default)} |\n" for name, (what, default, _) in table.items()]
    return "".join(["| option | can be | default |\n|---|---|---|\n", *rows])


def _default(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return str(default) if default else "the compiler's"


if __name__ == "__main__":
    PAGE.write_text(page())
