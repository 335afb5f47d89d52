"""NVRTC in a child of its own: CUDA C++ text in, cubin, PTX and log out, with bounds on time and memory.

The worker forks for each compilation, after NVRTC is loaded: that costs two milliseconds, and what a source does to
the compiler (endless templates, all the memory, a crash) ends the child only. The bindings of NVRTC are used
themselves, not cuda.core's `Program`, since one compilation then gives the cubin and the PTX that the inspection
reads, and since the candidate's files are headers in memory: no path of this machine gets into a cubin.
Runs in build workers. Not here: what is compiled and what its errors mean (cuda.py, cuda_messages.py).
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import resource
import select
import shutil
import signal
import tempfile
import warnings
from pathlib import Path
from typing import Any

from kernelwright.errors import KernelwrightError
from kernelwright.languages import cache
from kernelwright.languages.bounded import Limits
from kernelwright.languages.device_probe import Toolchain
from kernelwright.types import value

OWN_HEADERS = Path(__file__).with_name("cuda_include")
"""The standard headers that NVRTC lacks, so far as kernels use them."""
SUCCESS, COMPILATION = 0, 6
"""nvrtcResult: NVRTC_SUCCESS, NVRTC_ERROR_COMPILATION."""
PARTS = ("log", "ptx", "cubin")
CRASHED = 77
"""The child's status when the binding itself raised."""


@value
class Text:
    """What to compile: the main text, and files that it may include by name."""

    name: str
    text: str
    files: tuple[tuple[str, str], ...] = ()
    """(name in an #include, text)."""


@value
class Compiled:
    """How a compilation ended."""

    status: int | None
    """0: good; 6: the compiler refused the source; negative: a signal ended it; None: killed at its deadline."""
    log: str = ""
    ptx: str = ""
    cubin: bytes = b""


def compile_text(text: Text, options: tuple[str, ...], *, limits: Limits, folder: Path) -> Compiled:
    """Returns what NVRTC makes of a text.

    Args:
        text: the source with its own headers.
        options: NVRTC's options, without include paths.
        limits: time and address space of the child.
        folder: where the child leaves what it made.
    """
    nvrtc = _bindings()
    folder.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        # From Python 3.12 a warning: the worker's other thread only watches the parent, and the child uses none.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = CRASHED
        try:
            _confine(limits)
            status = _compile(nvrtc, text, options, folder)
        finally:
            os._exit(status)
    status_word = _wait(child, limits.time_s)
    if status_word is None:
        return Compiled(status=None)
    code = os.waitstatus_to_exitcode(status_word)
    found = {part: _read(folder / part) for part in PARTS}
    return Compiled(
        status=code,
        log=found["log"].decode(errors="replace").replace("\0", "\n").strip(),
        ptx=found["ptx"].decode(errors="replace").rstrip("\0 \n"),
        cubin=found["cubin"],
    )


def include_options(toolchain: Toolchain) -> tuple[str, ...]:
    """Returns the options that name the folders of headers: ours first, then CUDA's."""
    folders = toolchain.headers
    if toolchain.bundled:
        installed = _bundled_headers(toolchain.nvrtc)
        folders = (str(installed), str(installed / "cccl"))
    return tuple(f"-I{folder}" for folder in (OWN_HEADERS, *folders))


@functools.cache
def _bundled_headers(version: str) -> Path:
    """Unpacks the headers that NVRTC carries (25 MB, once for each version) and returns their folder."""
    place = cache.toolchains() / f"nvrtc-{version}-headers"
    if (place / "cuda_fp16.h").is_file():
        return place
    nvrtc = _bindings()
    place.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
    try:
        answer = nvrtc.nvrtcInstallBundledHeaders(str(made / "include").encode(), 0)
        if int(answer[0]) != SUCCESS:
            raise KernelwrightError(f"NVRTC {version} could not unpack its headers: {answer}", "free some disk space")
        with contextlib.suppress(OSError):  # somebody was quicker, with the same content
            os.rename(made / "include", place)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return place


@functools.cache
def _bindings() -> Any:
    """The vendor's module, loaded by name: only workers have it."""
    nvrtc = importlib.import_module("cuda.bindings.nvrtc")
    nvrtc.nvrtcVersion()  # loads the library, before any fork
    return nvrtc


def _confine(limits: Limits) -> None:
    seconds = max(1, round(limits.time_s))
    for what, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, _inherited_bytes() + limits.memory_bytes),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
    ):
        resource.setrlimit(what, (most, most))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    os.chdir("/")  # the folder's name becomes part of line tables, and must be the same everywhere


def _inherited_bytes() -> int:
    """Address space that this child has from the process that it was forked from, which is none of the compiler's."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _compile(nvrtc: Any, text: Text, options: tuple[str, ...], folder: Path) -> int:
    """Compiles in the child; returns NVRTC's status."""
    names = [name.encode() for name, _ in text.files]
    texts = [body.encode() for _, body in text.files]
    status, program = nvrtc.nvrtcCreateProgram(text.text.encode(), text.name.encode(), len(names), texts, names)
    if int(status) != SUCCESS:
        return int(status)
    flags = [option.encode() for option in options]
    result = int(nvrtc.nvrtcCompileProgram(program, len(flags), flags)[0])
    _save(folder / "log", program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
    if result == SUCCESS:
        _save(folder / "ptx", program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
        _save(folder / "cubin", program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
    return result


def _save(path: Path, program: Any, size: Any, get: Any) -> None:
    status, count = size(program)
    if int(status) == SUCCESS:
        data = b" " * count
        get(program, data)
        path.write_bytes(data)


def _wait(child: int, time_s: float) -> int | None:
    """The child's wait status; None when it had to be killed at its deadline."""
    handle = os.pidfd_open(child)
    try:
        ended = bool(select.select([handle], [], [], time_s)[0])
        if not ended:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(handle)
        _, status = os.waitpid(child, 0)
    return status if ended else None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
