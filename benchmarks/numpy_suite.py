"""NumPy's own tests with `kernelwright.numpy` in NumPy's place: docs/results/numpy.md.

    python benchmarks/numpy_suite.py [--lacking]
    python benchmarks/numpy_suite.py --jobs 7 --seconds 120      # over CuPy: on a GPU, in time

The installed NumPy's test files are copied and nothing in them is changed but the imports: `numpy`, `numpy.linalg`,
`numpy.fft` and `numpy.random` become ours; `numpy.testing` and private modules stay. A test counts where plain NumPy
passes it on this machine. --lacking runs them again over a library that has NumPy's arrays but lacks every second
function, so that half of all names take the road that CuPy's gaps take. Over arrays of a device `numpy.testing` becomes
numpy_testing.py, which brings what is compared to the host.
**Does not cover**: NumPy's tests of strings, records, files, its C interface and build.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import types
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import numpy

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))
FILES = {
    "ufuncs": ("_core/tests/test_ufunc.py", "_core/tests/test_umath.py", "_core/tests/test_umath_complex.py"),
    "creation, reductions": ("_core/tests/test_numeric.py", "_core/tests/test_function_base.py",
                             "lib/tests/test_nanfunctions.py"),
    "functions of arrays": ("lib/tests/test_function_base.py", "lib/tests/test_shape_base.py",
                            "lib/tests/test_twodim_base.py", "lib/tests/test_arraysetops.py",
                            "_core/tests/test_shape_base.py", "_core/tests/test_einsum.py"),
    "indexing": ("_core/tests/test_indexing.py", "lib/tests/test_index_tricks.py",
                 "_core/tests/test_item_selection.py"),
    "linear algebra": ("linalg/tests/test_linalg.py",),
    "random": ("random/tests/test_random.py", "random/tests/test_generator_mt19937.py"),
    "fft": ("fft/tests/test_pocketfft.py", "fft/tests/test_helper.py"),
}  # fmt: skip
OURS = r"(\.(?:linalg|fft|random))?"
IMPORTS = (
    (re.compile(rf"^(\s*)import numpy{OURS} as (\w+)$", re.M), r"\1import kernelwright.numpy\2 as \3"),
    (re.compile(rf"^(\s*)from numpy{OURS} import ", re.M), r"\1from kernelwright.numpy\2 import "),
)
ON_DEVICE = (
    (re.compile(r"^(\s*)from numpy\.testing import ", re.M), r"\1from benchmarks.numpy_testing import "),
    (re.compile(r"^(\s*)import numpy\.testing as (\w+)$", re.M), r"\1import benchmarks.numpy_testing as \2"),
)
MODES = ("plain", "ours", "lacking")
DEADLINE_S = 1500


class Counted:
    """A plugin of pytest: what became of each test, and whether a call of it went to NumPy."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self.outcomes: dict[str, str] = {}
        self.words: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keeps the worst of a test's phases."""
        skipped = report.outcome == "skipped"
        if report.failed or (report.when == "call" and not skipped):
            went: dict[str, int] = getattr(sys.modules.get("kernelwright.numpy"), "fallbacks", dict)()
            known = sum(went.values())
            fell = known > getattr(self, "before", 0)
            self.before = known
            passed = "fallback" if fell else "passed"
            self.outcomes[report.nodeid] = "failed" if report.failed else passed
            if report.failed:
                self.words[report.nodeid] = str(report.longrepr)[-300:]

    def pytest_runtest_teardown(self, item: Any) -> None:
        """Ends the run when time is up; what was not reached is not counted."""
        if time.monotonic() > self._end:
            item.session.shouldstop = "time is up"


def run_here(mode: str, files: list[str], out: str, seconds: float) -> None:
    """Runs test files in this process and writes what became of them."""
    import pytest

    if mode == "lacking":
        import kernelwright.numpy as ours
        from kernelwright.numpy.libraries import Namespace

        ours._namespace = Namespace(lacking())
    counted = Counted(seconds)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:rerunfailures", "--tb=short", "-W", "ignore"]
    pytest.main([*options, "-m", "not slow", "--rootdir", str(Path(out).parent), *files], plugins=[counted])
    Path(out).write_text(json.dumps({"outcomes": counted.outcomes, "words": counted.words}), encoding="utf-8")


def lacking() -> types.ModuleType:
    """Returns a library of NumPy's arrays without every second function."""
    made = types.ModuleType("lacking")
    for space, names in ((made, numpy), *((types.ModuleType(f"lacking.{s}"), getattr(numpy, s)) for s in SUBMODULES)):
        for number, name in enumerate(sorted(vars(names))):
            item = getattr(names, name)
            function = callable(item) and not isinstance(item, type)
            if not name.startswith("_") and not (function and number % 2):
                setattr(space, name, item)
        if space is not made:
            setattr(made, space.__name__.partition(".")[2], space)
    sys.modules["lacking"] = made
    return made


SUBMODULES = ("linalg", "random", "fft")


def copied(folder: Path, ours: bool) -> dict[str, list[str]]:
    """Copies the test files, with our imports or theirs; returns the copies by kind."""
    found: dict[str, list[str]] = {}
    (folder / "data").mkdir(parents=True)
    root = Path(numpy.__file__).parent
    for kind, names in FILES.items():
        for name in names:
            text = (root / name).read_text(encoding="utf-8")
            for pattern, made in (*IMPORTS, *(ON_DEVICE if has_device() else ())) if ours else ():
                text = pattern.sub(made, text)
            place = folder / f"test_{name.replace('/tests/test', '').replace('/', '_')}"
            place.write_text(text, encoding="utf-8")
            found.setdefault(kind, []).append(str(place))
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow\n    leaks_references\n    thread_unsafe\n")
    for data in (root / "random/tests/data").glob("*"):
        (folder / "data" / data.name).write_bytes(data.read_bytes()) if data.is_file() else None
    return found


def has_device() -> bool:
    """Tells whether the library's arrays lie on a device."""
    from kernelwright.numpy.libraries import chosen

    return chosen().name != "numpy"


def counts_of(mode: str, folder: Path, jobs: int, seconds: float) -> dict[str, dict[str, str]]:
    """Returns, by kind, what became of each test in a mode; each kind runs in a process of its own."""

    def outcomes(kind: str, files: list[str]) -> dict[str, str]:
        out = folder / f"{kind.replace(' ', '_')}.json"
        code = f"from benchmarks.numpy_suite import run_here; run_here({mode!r}, {files!r}, {str(out)!r}, {seconds!r})"
        paths = (str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", ""))
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, timeout=DEADLINE_S, check=False,
                       stdout=sys.stderr)  # fmt: skip
        told = json.loads(out.read_text()) if out.is_file() else {"outcomes": {}, "words": {}}
        for name, words in told["words"].items() if mode != "plain" else ():
            print(f"{mode}: {name.rpartition('/')[2]}: {words.strip().splitlines()[-1:]}", file=sys.stderr)
        return {name.rpartition("/")[2]: outcome for name, outcome in told["outcomes"].items()}

    files = copied(folder, mode != "plain")
    with ThreadPoolExecutor(jobs) as pool:
        return dict(zip(files, pool.map(outcomes, files, files.values()), strict=True))


@click.command()
@click.option("--lacking", "also", is_flag=True, help="Also over a library that lacks every second function.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Kinds at the same time.")
@click.option("--seconds", type=float, default=DEADLINE_S, show_default=True, help="For each kind in each mode.")
@click.option("--kinds", default="", help="Only these kinds, with commas.")
@click.option("--out", type=click.Path(path_type=Path), default=ROOT / "docs/results/numpy.md", show_default=True)
def main(also: bool, jobs: int, seconds: float, kinds: str, out: Path) -> None:
    """Runs NumPy's tests with and without us in its place, and writes the page."""
    for kind in set(FILES) - set(filter(None, kinds.split(","))) if kinds else ():
        del FILES[kind]
    with tempfile.TemporaryDirectory() as folder:
        told = {mode: counts_of(mode, Path(folder) / mode, jobs, seconds) for mode in MODES[: 3 if also else 2]}
    text = page(told)
    out.write_text(text, encoding="utf-8")
    print(text)


def page(told: dict[str, dict[str, dict[str, str]]]) -> str:
    """Returns the page's text."""
    from kernelwright.numpy import backend

    words = [word for word in sys.argv[1:] if "/" not in word and word != "--out"]
    lines = [
        "# NumPy's own tests with kernelwright.numpy in its place\n",
        f"NumPy {numpy.__version__}, Python {sys.version.split()[0]}, {datetime.now(UTC):%Y-%m-%d}; library: "
        f"{backend()}. Command: `python benchmarks/numpy_suite.py {' '.join(words)}`\n",
        "Tests are those that plain NumPy passes on this machine; nothing in them is changed but the imports. "
        "Fallback: passed, and a call of it went from the library to NumPy, with the warning and the count.\n",
    ]
    names = {"ours": "over the library of this machine", "lacking": "over a library that lacks every second function"}
    for mode in (mode for mode in names if mode in told):
        lines += [
            f"## {names[mode].capitalize()}\n",
            "| part | tests | passed | of these by fallback | failed | share |",
        ]
        lines.append("|---|---|---|---|---|---|")
        whole: Counter[str] = Counter()
        late = 0
        for kind, plain in told["plain"].items():
            kept = [name for name, outcome in plain.items() if outcome != "failed"]
            found = told[mode][kind]  # empty where a test ended the process: then all have failed
            counts = Counter(found.get(name, "late" if found else "failed") for name in kept)
            late += counts.pop("late", 0)
            whole += counts
            lines.append(_line(kind, counts))
        lines += [_line("all", whole), ""]
        if late:
            lines += [f"{late} tests were not reached in the time that each part had.", ""]
    return "\n".join(lines)


def _line(kind: str, counts: Counter[str]) -> str:
    passed, total = counts["passed"] + counts["fallback"], sum(counts.values())
    share = f"{100 * passed / total:.2f} %" if total else "-"
    return f"| {kind} | {total} | {passed} | {counts['fallback']} | {counts['failed']} | {share} |"


if __name__ == "__main__":
    main()
