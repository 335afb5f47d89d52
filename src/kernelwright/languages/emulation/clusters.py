"""Kernels with tensor cores, copies by tensor map, barriers and clusters, run on the CPU by functional models.

A candidate whose device code uses <kernelwright_tensor.h> is compiled with headers of the same names in clusters/ and
called with plain memory. It says whether a kernel is right under several orders of what is asynchronous, never how
fast it is; for the project's own kernels and their tests, not for other people's sources, which only the jailed
judge may run.
Not here: the judge's emulation of blocks (build.py), whose findings and checks this has not.
"""

from __future__ import annotations

import ctypes
import functools
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from kernelwright import sizes
from kernelwright.errors import KernelwrightError
from kernelwright.languages.emulation.build import INCLUDE
from kernelwright.languages.hardware import find_compiler
from kernelwright.languages.tensor_maps import ELEMENT_BYTES
from kernelwright.types import Binding, Candidate, Step, TensorMap

MODELS = Path(__file__).with_name("clusters")
ORDERS = 3
"""Seeds 0, 1 and 2 are: copies early and products late, the reverse, both at random."""
FLAGS = ("-std=c++17", "-O1", "-fno-strict-aliasing", "-fwrapv", "-w", "-shared", "-fPIC")
HEADER = "kernelwright_tensor.h"
HEADERS = ("-isystem", str(MODELS), "-isystem", str(INCLUDE))
MESSAGE_BYTES = 512
_ENTRY = 'extern "C" void run(unsigned char** buffers, unsigned seed, char* message, unsigned long room)'


class Emulated:
    """A compiled candidate. It lives in a temporary folder until `close`.

    Raises:
        KernelwrightError: when the compiler refuses the candidate's sources.
    """

    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate
        self._folder = tempfile.TemporaryDirectory(prefix="kernelwright-clusters-")
        folder = Path(self._folder.name)
        for source in candidate.sources:
            path = folder / source.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source.text)
        (folder / "entry.cpp").write_text(entry_text(candidate))
        library = folder / "lib.so"
        ready = _precompiled().name
        _compile("-I", ready, "-I", str(folder), *HEADERS, str(folder / "entry.cpp"), "-o", str(library))
        self._run = ctypes.CDLL(str(library)).run
        self._run.restype = None

    def run(self, addresses: Mapping[str, int], seed: int = 0) -> str:
        """Runs the plan once; returns what went wrong (a deadlock, a bad address), empty where nothing did.

        Args:
            addresses: where each tensor and workspace of the plan lies, by name; the caller keeps that memory alive.
            seed: which order of what is asynchronous.
        """
        names = buffer_names(self.candidate)
        buffers = (ctypes.c_void_p * len(names))(*(addresses[name] for name in names))
        message = ctypes.create_string_buffer(MESSAGE_BYTES)
        self._run(buffers, ctypes.c_uint(seed), message, ctypes.c_ulong(MESSAGE_BYTES))
        return message.value.decode(errors="replace")

    def close(self) -> None:
        """Removes the folder."""
        self._folder.cleanup()


@functools.cache
def _precompiled() -> tempfile.TemporaryDirectory[str]:
    """The models' header, read once for all kernels of this process."""
    folder = tempfile.TemporaryDirectory(prefix="kernelwright-clusters-")
    copy = Path(folder.name) / HEADER  # the compiler looks for both side by side
    copy.write_text((MODELS / HEADER).read_text())
    _compile(*HEADERS, "-x", "c++-header", str(copy), "-o", f"{copy}.gch")
    return folder


def _compile(*arguments: str) -> None:
    done = subprocess.run([find_compiler().path, *FLAGS, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise KernelwrightError(f"the emulated kernel does not compile: {done.stderr[:2000]}")


def buffer_names(candidate: Candidate) -> tuple[str, ...]:
    """Returns the tensors and workspaces that a plan uses, in the order of their first use."""
    maps = {m.name: m.of for m in candidate.plan.tensor_maps}
    bound = [
        b for step in candidate.plan.steps for b in step.arguments if b.kind in ("tensor", "workspace", "tensor_map")
    ]
    return tuple(dict.fromkeys(maps.get(b.name, b.name) if b.kind == "tensor_map" else b.name for b in bound))


def entry_text(candidate: Candidate) -> str:
    """Returns the C++ text that includes a candidate and runs its plan."""
    place = {name: number for number, name in enumerate(buffer_names(candidate))}
    lines = ['#include "kernelwright_tensor.h"', f'#include "{candidate.sources[0].path}"', f"{_ENTRY} {{"]
    lines.append("  std::string said;")
    lines += [_map_text(found, place) for found in candidate.plan.tensor_maps]
    lines += [_step_text(step, place) for step in candidate.plan.steps]
    lines.append('  std::snprintf(message, room, "%s", said.c_str());\n}')
    return "\n".join(lines) + "\n"


def _map_text(found: TensorMap, place: Mapping[str, int]) -> str:
    shape = [sizes.evaluate(size, {}) for size in found.shape]
    strides = [ELEMENT_BYTES[found.dtype], *(sizes.evaluate(size, {}) for size in found.strides_bytes)]
    rows = (shape, strides, found.box)
    inner = ", ".join("{" + ", ".join(map(str, row)) + "}" for row in rows)
    return f"  const CUtensorMap {found.name} = {{buffers[{place[found.of]}], {inner}, {found.swizzle_bytes}}};"


def _step_text(step: Step, place: Mapping[str, int]) -> str:
    assert step.launch is not None
    launch = step.launch
    arguments = ", ".join(_argument(binding, place) for binding in step.arguments)
    grid = ", ".join(f"{size}u" for size in launch.grid)
    shape = f"dim3({grid}), {launch.block[0]}u, {launch.cluster[0]}u, {launch.shared_bytes}u"
    call = f"kernelwright_cluster::launch({shape}, seed, [&] {{ ::{step.symbol}({arguments}); }})"
    return f"  if (said.empty()) said = {call};"


def _argument(binding: Binding, place: Mapping[str, int]) -> str:
    if binding.kind in ("tensor", "workspace"):
        return f"reinterpret_cast<{binding.ctype}*>(buffers[{place[binding.name]}])"
    return binding.name if binding.kind == "tensor_map" else f"{binding.ctype}({binding.scalar})"
