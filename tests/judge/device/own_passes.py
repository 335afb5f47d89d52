"""The judge's own kernels run on the CPU by the emulation: compiled once for a session, started through ctypes."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from kernelwright.judge.device import passes
from kernelwright.languages.emulation import shared_memory
from kernelwright.languages.hardware import find_compiler

DEVICE = Path(passes.__file__).with_name("own_passes.cu")
INCLUDE = Path(shared_memory.__file__).with_name("include")
STARTER = """
#include <utility>
template <class... A, size_t... I>
void call(void (*kernel)(A...), void** given, std::index_sequence<I...>) { kernel(*static_cast<A*>(given[I])...); }
template <class... A>
void run(void (*kernel)(A...), void** given, const unsigned* shape) {
  using namespace kernelwright_emulation;
  begin_call();
  const auto made = [&] { call(kernel, given, std::index_sequence_for<A...>()); };
  launch(dim3(shape[0], shape[1]), dim3(shape[2]), shape[3], made);
  end_call();
}
"""


def build(folder: Path) -> ctypes.CDLL:
    """Returns the kernels as a library for this processor."""
    entry, made, library = folder / "entry.cpp", folder / "entry.ii", folder / "passes.so"
    starts = "".join(
        f'extern "C" void run_{name}(void** given, const unsigned* shape) {{ run({name}, given, shape); }}\n'
        for name in passes.NAMES
    )
    entry.write_text(f'#include <kernelwright_emulation/device.hpp>\n#include "{DEVICE}"\n{STARTER}{starts}')
    flags = ["-std=c++17", "-O1", "-fwrapv", "-fno-strict-aliasing", "-D_GNU_SOURCE", "-fPIC", "-isystem", str(INCLUDE)]
    compiler = find_compiler().path
    subprocess.run([compiler, *flags, "-E", str(entry), "-o", str(made)], check=True)
    rewritten = shared_memory.rewrite(made.read_text())
    assert isinstance(rewritten, str), rewritten
    made.write_text(rewritten)
    subprocess.run([compiler, *flags, "-w", "-shared", str(made), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


@contextmanager
def emulated(library: ctypes.CDLL, counts: dict[str, int] | None = None) -> Iterator[passes.Passes]:
    """Puts the kernels in use for tensors on the CPU; counts how often each is started."""

    def launch(name: str, grid: tuple[int, int], threads: int, shared: int, packed: tuple[bytes, ...]) -> None:
        held = [ctypes.create_string_buffer(data, len(data)) for data in packed]
        given = (ctypes.c_void_p * len(held))(*(ctypes.addressof(buffer) for buffer in held))
        getattr(library, f"run_{name}")(given, (ctypes.c_uint * 4)(*grid, threads, shared))
        if counts is not None:
            counts[name] = counts.get(name, 0) + 1

    made = passes.Passes(launch, torch.device("cpu"), 1)
    passes.use(made)
    try:
        yield made
    finally:
        passes.use(None)


def widths() -> dict[str, list[int]]:
    """Returns the bytes of each kernel's parameters, read from the source."""
    sizes = {"u32": 4, "int": 4, "u64": 8, "double": 8}
    text = DEVICE.read_text()
    return {
        name: [8 if "*" in part else sizes[part.split()[-2]] for part in parameters.replace("\n", " ").split(",")]
        for name, parameters in re.findall(r"__global__ void (kw_\w+)\(([^)]*)\)", text)
    }
