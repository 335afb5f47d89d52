"""Compiles generated C++ for these tests, directly with the system compiler and the flags of the build worker."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

FLAGS = (
    *("-std=c++17", "-O3", "-march=native", "-fopenmp", "-fPIC", "-shared"),
    *("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"),
)
INCLUDE = Path(__file__).resolve().parents[2] / "src" / "kernelwright" / "experts"


def compile_library(folder: Path, text: str, *, name: str = "harness", optimise: str = "-O3") -> ctypes.CDLL:
    """Returns the shared library made of one C++ source that may include simd.hpp."""
    source, library = folder / f"{name}.cpp", folder / f"{name}.so"
    source.write_text(text)
    flags = [optimise if flag == "-O3" else flag for flag in FLAGS]
    command = [
        "g++",
        *flags,
        "-Wall",
        "-Wno-psabi",
        "-Werror=return-type",
        f"-I{INCLUDE}",
        str(source),
        "-o",
        str(library),
        "-lm",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(library))


@pytest.fixture(scope="session")
def build_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("experts")
