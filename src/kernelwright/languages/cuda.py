"""The language `cuda`: CUDA C++ with inline PTX, compiled by NVRTC straight to a cubin, with neither GPU nor driver.

A candidate's sources are checked (gate.py), their syntax is checked, they are compiled together with what holds their
kernels to the plan (cuda_entry.py), and the cubin and its PTX are inspected (device_inspection.py). nvcc is the
named fallback: by the option `compiler`, or where there is no NVRTC.
Not here: processes (builder.py, worker.py), caching (cache.py), launching (judge).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from kernelwright.languages import (
    bounded,
    cache,
    cubin,
    cuda_entry,
    cuda_messages,
    device_inspection,
    emulation,
    gate,
    nvrtc,
)
from kernelwright.languages.bounded import Limits
from kernelwright.languages.device_plan import check_device_plan, check_resources
from kernelwright.languages.device_probe import Toolchain, require, toolchain
from kernelwright.languages.diagnostics import DETAIL_LIMIT
from kernelwright.types import Artifact, Candidate, Failure, OptionValue, Problem, Target, digest

FORMAT = 1
"""Part of every key: raise it when the same inputs would give another artifact or another verdict."""
_HEADERS = (
    "cuda_fp16.h cuda_bf16.h cuda_fp8.h cuda_fp6.h cuda_fp4.h cuda_tf32.h mma.h cooperative_groups.h cuda_pipeline.h "
    "cuda_pipeline_primitives.h cuda_awbarrier.h cuda_awbarrier_primitives.h cuComplex.h math_constants.h "
    "vector_types.h vector_functions.h"
)
RULES = gate.Rules(
    headers=frozenset((*_HEADERS.split(), *(path.name for path in nvrtc.OWN_HEADERS.iterdir()))),
    folders=("cuda/", "cub/", "cooperative_groups/", "nv/target"),
    extensions=(".cu", ".cuh", ".hpp", ".h", ".inc"),
    advice="headers of device code, such as <cuda_fp16.h>, <mma.h>, <cooperative_groups.h>, <cuda/barrier>, "
    "<cstdint>, <cmath>, <limits>, <type_traits>",
)
SLOW_HEADERS = re.compile(r"#\s*include\s*[<\"](cuda/|cub/|cooperative_groups|cuda_pipeline|cuda_awbarrier)")
NO_PROBLEM = Problem(name="", inputs=(), parameters=(), outputs=(), reference=(), entry="", workloads=(), min_bytes=0)
"""Of sources that are compiled without a plan."""
MOST_REGISTERS = 255
Flags = tuple[str, ...]


def _one_of(prefix: str, *choices: OptionValue) -> Callable[[OptionValue], Flags | None]:
    return lambda given: (f"{prefix}{given}",) if given in choices and type(given) is type(choices[0]) else None


def _switch(when: bool, *flags: str) -> Callable[[OptionValue], Flags | None]:
    return lambda given: (flags if given is when else ()) if isinstance(given, bool) else None


def _registers(given: OptionValue) -> Flags | None:
    if isinstance(given, bool) or not isinstance(given, int) or (given and not 16 <= given <= MOST_REGISTERS):
        return None
    return (f"--maxrregcount={given}",) if given else ()


OPTIONS: dict[str, tuple[str, OptionValue, Callable[[OptionValue], Flags | None]]] = {
    "std": ("c++17 or c++20", "c++17", _one_of("--std=", "c++17", "c++20")),
    "opt": ("1, 2 or 3, the assembler's level", 3, _one_of("--ptxas-options=-O", 1, 2, 3)),
    "max_registers": ("16 to 255, 0 for no limit", 0, _registers),
    "fast_math": ("true or false; the judge decides whether it is exact enough", False,
                  _switch(True, "--use_fast_math")),
    "fmad": ("true or false", True, _switch(False, "--fmad=false")),
    "compiler": ("nvrtc or nvcc", "nvrtc", lambda given: () if given in ("nvrtc", "nvcc") else None),
}  # fmt: skip
"""By name: what may be chosen, the default, and the flags that a choice stands for (None: refused)."""
ALWAYS = (
    # Line tables change no instruction (a test compares), and map everything that is found to the author's line.
    "--generate-line-info", "--ptxas-options=-v", "--ptxas-options=--warn-on-spills",
)  # fmt: skip


class Cuda:
    """CUDA C++ sources to an inspected cubin.

    **Covers**: named options only, bounded compilation, located errors (of inline PTX too), the plan's types held
    against the kernels' parameters twice (by the compiler, and in the cubin's own table), inspection, resources.
    **Does not cover**: isolation of the compiler, which is the build worker's jail's part.
    """

    name = "cuda"

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()

    def prepare(self) -> None:
        """Unpacks the headers that NVRTC carries."""
        found = toolchain()
        if found.bundled:
            nvrtc.include_options(found)

    def key(self, problem: Problem, candidate: Candidate, target: Target) -> str | Failure:
        """Returns the digest of sources, plan, flags, compiler, headers and architecture, or why there is none."""
        emulated = emulation.is_emulated(target)
        device = emulation.stand_in(target) if emulated else target
        fault = check_device_plan(problem, candidate, device) or gate.check_sources(candidate.sources, rules=RULES)
        fault = fault or _aliases_fault(candidate)
        if fault:
            return fault
        flags = flags_for(candidate.options)
        if isinstance(flags, Failure):
            return flags
        if emulated:
            return emulation.key(problem, candidate)
        chosen = compiler_of(candidate)
        found = require(chosen)
        made_by = (
            ("nvcc", found.nvcc, found.nvcc_version)
            if chosen == "nvcc"
            else ("nvrtc", found.nvrtc, found.library_bytes, found.headers, found.headers_digest)
        )
        own = tuple((path.name, path.read_text()) for path in sorted(nvrtc.OWN_HEADERS.iterdir()))
        parts = (
            FORMAT, self.name, candidate.sources, candidate.plan, flags, made_by, digest(own), target.architecture,
            cuda_entry.text(problem, candidate),
        )  # fmt: skip
        return digest(parts)

    def compile(self, problem: Problem, candidate: Candidate, target: Target, folder: Path) -> Artifact | Failure:
        """Builds and inspects a candidate in an empty folder; the code is `folder/kernel.cubin`."""
        started = time.monotonic()
        key = self.key(problem, candidate, target)
        if isinstance(key, Failure):
            return key
        if emulation.is_emulated(target):
            files = included_files(candidate)
            return emulation.compile_candidate(problem, candidate, key, files, folder, self.limits)
        made = self._made(problem, candidate, target, folder)
        if isinstance(made, Failure):
            return made
        built = cubin.read(folder / cache.CUBIN)
        fault = device_inspection.inspect(candidate, built, made.ptx) or check_resources(candidate, built, target)
        return fault or _artifact(candidate, key, built, made, folder, started)

    def compile_checked(self, problem: Problem, candidate: Candidate, checker: str, folder: Path) -> Artifact | Failure:
        """Builds a candidate for an emulated target once more, with a memory checker in it."""
        return emulation.compile_checked(problem, candidate, checker, included_files(candidate), folder, self.limits)

    def compile_alone(self, candidate: Candidate, target: Target, folder: Path) -> Artifact | Failure:
        """Builds sources without a plan and without the inspection: code to look at, not to run."""
        started = time.monotonic()
        if fault := gate.check_sources(candidate.sources, rules=RULES) or _aliases_fault(candidate):
            return fault
        require(compiler_of(candidate))
        made = self._made(NO_PROBLEM, candidate, target, folder)
        if isinstance(made, Failure):
            return made
        return _artifact(candidate, "", cubin.read(folder / cache.CUBIN), made, folder, started)

    def _made(self, problem: Problem, candidate: Candidate, target: Target, folder: Path) -> nvrtc.Compiled | Failure:
        flags = flags_for(candidate.options)
        if isinstance(flags, Failure):
            return flags
        folder.mkdir(parents=True, exist_ok=True)
        run = self._nvcc if compiler_of(candidate) == "nvcc" else self._nvrtc
        made = run(problem, candidate, (f"--gpu-architecture={target.architecture}", *flags), folder)
        if isinstance(made, nvrtc.Compiled):
            (folder / cache.CUBIN).write_bytes(made.cubin)
        return made

    def _nvrtc(self, problem: Problem, candidate: Candidate, flags: Flags, folder: Path) -> nvrtc.Compiled | Failure:
        text = nvrtc.Text(
            name=cuda_entry.FILE, text=cuda_entry.text(problem, candidate), files=included_files(candidate)
        )
        include = nvrtc.include_options(toolchain())

        def run(options: Flags, where: str) -> nvrtc.Compiled:
            return nvrtc.compile_text(text, (*options, *include), limits=self.limits, folder=folder / where)

        # A cheap look at the syntax first, unless reading the headers is what takes the time: then once is enough.
        # What our own printers wrote has no errors of syntax to find.
        slow = any(SLOW_HEADERS.search(source.text) for source in candidate.sources)
        made = None if slow or candidate.author == "expert" else run((*flags, "--fdevice-syntax-only"), "syntax")
        if made is None or made.status == nvrtc.SUCCESS:
            made = run((*flags, *ALWAYS), "made")
        if made.status == nvrtc.SUCCESS:
            return made
        ptx = ""
        if "ptxas" in made.log:  # its complaints name lines of PTX: have that text, to find the author's lines
            virtual = tuple(f.replace("=sm_", "=compute_") if "gpu-arch" in f else f for f in flags)
            ptx = run((*(f for f in virtual if "ptxas" not in f), "--generate-line-info"), "virtual").ptx
        return cuda_messages.failure(problem, candidate, made.status, made.log, self.limits, ptx)

    def _nvcc(self, problem: Problem, candidate: Candidate, flags: Flags, folder: Path) -> nvrtc.Compiled | Failure:
        sources = folder / "sources"
        for name, body in (*included_files(candidate), (cuda_entry.FILE, cuda_entry.text(problem, candidate))):
            path = sources / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body, newline="")
        kept = folder / "kept"
        kept.mkdir()
        command = [
            toolchain().nvcc, "--cubin", *flags, *ALWAYS, "--keep", f"--keep-dir={kept}", "-I.", cuda_entry.FILE,
            "-o", str(kept / cache.CUBIN),
        ]  # fmt: skip
        ended = bounded.run(command, folder=sources, temporary=folder / "temporary", limits=self.limits)
        made = next(kept.glob("*.ptx"), None)
        ptx = made.read_text(errors="replace") if made else ""
        # nvcc writes the path that it was given, and NVRTC the root: the reader takes both for the author's file.
        ptx = ptx.replace(f'"{sources}/', '"/')
        if ended.status != 0:
            return cuda_messages.failure(problem, candidate, ended.status, ended.output, self.limits, ptx)
        code = (kept / cache.CUBIN).read_bytes()
        return nvrtc.Compiled(status=0, log=ended.output, ptx=ptx, cubin=code)


def _artifact(
    candidate: Candidate, key: str, built: cubin.Cubin, made: nvrtc.Compiled, folder: Path, started: float
) -> Artifact:
    path = folder / cache.CUBIN
    return Artifact(
        candidate=digest(candidate),
        key=key,
        blob=cache.blob_digest(path),
        entry="",
        plan=candidate.plan,
        resources=cubin.resources(built, cuda_messages.spills(made.log)),
        log=made.log[:DETAIL_LIMIT],
        path=str(path),
        build_s=time.monotonic() - started,
    )


def compiler_of(candidate: Candidate) -> str:
    """Returns the compiler that a candidate names, else NVRTC, else nvcc where that is all there is."""
    chosen = dict(candidate.options).get("compiler")
    if chosen is not None:
        return str(chosen)
    found: Toolchain = toolchain()
    return "nvcc" if found.nvcc and not found.nvrtc else "nvrtc"


def flags_for(options: tuple[tuple[str, OptionValue], ...]) -> Flags | Failure:
    """Returns the compiler's flags for named options, or a Failure that names the unknown one."""
    chosen = {name: default for name, (_, default, _) in OPTIONS.items()}
    for name, given in options:
        if name not in OPTIONS:
            known = ", ".join(f"{key} ({what})" for key, (what, _, _) in OPTIONS.items())
            return Failure(stage="build", kind="option", message=f"unknown option {name!r}; known are {known}")
        chosen[name] = given
    flags: list[str] = []
    for name, given in chosen.items():
        what, _, translate = OPTIONS[name]
        translated = translate(given)
        if translated is None:
            return Failure(stage="build", kind="option", message=f"option {name!r} is {given!r}; it can be {what}")
        flags += translated
    return tuple(flags)


def included_files(candidate: Candidate) -> tuple[tuple[str, str], ...]:
    """Returns each source under every name that another may include it by: its path, and that from a folder inside."""
    found = {source.path: source.text for source in candidate.sources}
    for source in candidate.sources:
        parts = source.path.split("/")
        for first in range(1, len(parts)):
            found.setdefault("/".join(parts[first:]), source.text)
    return tuple(found.items())


def _aliases_fault(candidate: Candidate) -> Failure | None:
    """Two files of one name in different folders cannot both be included by it."""
    seen: dict[str, str] = {}
    for source in candidate.sources:
        name = source.path.rpartition("/")[2]
        if name in seen:
            message = f"the candidate has {seen[name]!r} and {source.path!r}; give its files different names"
            return Failure(stage="build", kind="source", message=message)
        seen[name] = source.path
    return None
