"""The language `cpp`: C++17 with OpenMP and SIMD, compiled by the system's compiler.

A candidate's sources are checked (gate.py), preprocessed, checked again, compiled together with
the generated entry (entry.py) and inspected (inspection.py). Start files are left out and every
symbol but the entry is hidden, so an honest library has no constructor and one export.
Not here: processes (builder.py, worker.py) and caching (cache.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from kernelwright.languages import bounded, cache, checked, diagnostics, entry, gate, inspection
from kernelwright.languages.bounded import Ended, Limits
from kernelwright.languages.hardware import Compiler, cpu_identity, find_compiler
from kernelwright.languages.plan import check_plan
from kernelwright.types import Artifact, Candidate, Failure, OptionValue, Problem, Target, digest

FORMAT = 2
"""Part of every key: raise it when the same inputs would give another artifact or another verdict."""
BASE_FLAGS = (
    "-std=c++17", "-march=native", "-fopenmp", "-fPIC", "-fno-math-errno", "-fno-trapping-math",
    # No exceptions and no run-time types: an escaping exception would end the runner, and without
    # them std::vector needs nothing but operator new. No thread-safe statics: they need libstdc++.
    "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics",
    # What distributions switch on by default would only add imports.
    "-fno-stack-protector", "-U_FORTIFY_SOURCE", "-fvisibility=hidden",
    "-iquote", ".", "-fdiagnostics-color=never", "-w",
)  # fmt: skip
LINK_FLAGS = (
    "-shared", "-nostartfiles", "-static-libgcc",
    "-Wl,-z,relro,-z,now,-z,noexecstack,-z,defs,-z,separate-code,-z,text,--as-needed,--build-id=none",
)  # fmt: skip
VERSION_SCRIPT = f"{{ global: {entry.SYMBOL}; local: *; }};\n"
PREPROCESSED = "entry.ii"
ERROR_LIMITS = {"g++": "-fmax-errors=20", "clang++": "-ferror-limit=20"}


def _one_of(prefix: str, *choices: OptionValue) -> Callable[[OptionValue], tuple[str, ...] | None]:
    return lambda given: (f"{prefix}{given}",) if given in choices and type(given) is type(choices[0]) else None


def _switch(*flags: str) -> Callable[[OptionValue], tuple[str, ...] | None]:
    return lambda given: (flags if given else ()) if isinstance(given, bool) else None


OPTIONS: dict[str, tuple[str, OptionValue, Callable[[OptionValue], tuple[str, ...] | None]]] = {
    "opt": ("O1, O2 or O3", "O3", _one_of("-", "O1", "O2", "O3")),
    "fp_contract": ("fast or off", "fast", _one_of("-ffp-contract=", "fast", "off")),
    "unroll_loops": ("true or false", False, _switch("-funroll-loops")),
    "reassociate": ("true or false", False, _switch("-fassociative-math", "-fno-signed-zeros")),
    "prefer_vector_width": ("128, 256 or 512", 0, _one_of("-mprefer-vector-width=", 0, 128, 256, 512)),
    "vector_cost_model": (
        "unlimited, dynamic, cheap or very-cheap", "", _one_of("-fvect-cost-model=", "", "unlimited", "dynamic",
                                                               "cheap", "very-cheap"),
    ),
}  # fmt: skip
"""By name: what may be chosen, the default, and the flags that a choice stands for (None: refused)."""


class Cpp:
    """C++17 sources to an inspected shared library.

    **Covers**: named options only, bounded compilation, located errors, inspection.
    **Does not cover**: isolation of the compiler, which is the build worker's jail's part.
    """

    name = "cpp"

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()

    def key(self, problem: Problem, candidate: Candidate, target: Target) -> str | Failure:
        """Returns the digest of sources, flags, compiler, processor and entry, or why there is none."""
        fault = check_plan(problem, candidate) or gate.check_sources(candidate.sources)
        if fault:
            return fault
        compiler = find_compiler()
        flags = flags_for(candidate.options, compiler)
        if isinstance(flags, Failure):
            return flags
        parts = (
            FORMAT, self.name, candidate.sources, flags, compiler, cpu_identity(),
            target.architecture, target.features, entry.text(problem, candidate),
        )  # fmt: skip
        return digest(parts)

    def compile(self, problem: Problem, candidate: Candidate, target: Target, folder: Path) -> Artifact | Failure:
        """Builds and inspects a candidate in an empty folder; the library is `folder/lib.so`."""
        started = time.monotonic()
        key = self.key(problem, candidate, target)
        if isinstance(key, Failure):
            return key
        compiler = find_compiler()
        flags = flags_for(candidate.options, compiler)
        assert not isinstance(flags, Failure)  # key() has passed
        ended = self._compile(problem, candidate, compiler, flags, folder)
        if isinstance(ended, Failure):
            return ended
        library = folder / cache.LIBRARY
        if fault := inspection.inspect_library(library):
            return fault
        return Artifact(
            candidate=digest(candidate),
            key=key,
            blob=cache.blob_digest(library),
            entry=entry.SYMBOL,
            plan=candidate.plan,
            log=ended.output[: diagnostics.DETAIL_LIMIT],
            path=str(library),
            build_s=time.monotonic() - started,
        )

    def compile_checked(self, problem: Problem, candidate: Candidate, checker: str, folder: Path) -> Artifact | Failure:
        """Builds a candidate that has passed `compile` once more, with a memory or race checker in it (checked.py)."""
        compiler = find_compiler()
        flags = flags_for(candidate.options, compiler)
        if isinstance(flags, Failure):
            return flags
        more, link_flags = checked.flags(checker)
        ended = self._compile(problem, candidate, compiler, (*flags, *more), folder, link_flags)
        if isinstance(ended, Failure):
            return ended
        if fault := checked.switched_off((folder / PREPROCESSED).read_text(errors="replace")):
            return fault
        library = folder / cache.LIBRARY
        return Artifact(
            candidate=digest(candidate),
            key="",
            blob=cache.blob_digest(library),
            entry=entry.SYMBOL,
            plan=candidate.plan,
            path=str(library),
        )

    def _compile(
        self,
        problem: Problem,
        candidate: Candidate,
        compiler: Compiler,
        flags: tuple[str, ...],
        folder: Path,
        link_flags: tuple[str, ...] = LINK_FLAGS,
    ) -> Ended | Failure:
        sources, temporary = folder / "sources", folder / "temporary"
        for source in candidate.sources:
            path = sources / source.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source.text, newline="")
        preprocessed, script = folder / PREPROCESSED, folder / "exports.map"
        script.write_text(VERSION_SCRIPT)
        ended = bounded.run(
            [compiler.path, *flags, "-E", "-x", "c++", "-", "-o", str(preprocessed)],
            folder=sources, temporary=temporary, limits=self.limits, stdin=entry.text(problem, candidate),
        )  # fmt: skip
        if ended.status != 0:
            return diagnostics.failure(problem, candidate, ended, self.limits)
        if fault := gate.check_preprocessed(preprocessed.read_text(errors="replace")):
            return fault
        command = [compiler.path, *flags, *link_flags, f"-Wl,--version-script={script}"]
        ended = bounded.run(
            [*command, "-x", "c++-cpp-output", str(preprocessed), "-o", str(folder / cache.LIBRARY)],
            folder=sources, temporary=temporary, limits=self.limits,
        )  # fmt: skip
        return ended if ended.status == 0 else diagnostics.failure(problem, candidate, ended, self.limits)


def flags_for(options: tuple[tuple[str, OptionValue], ...], compiler: Compiler) -> tuple[str, ...] | Failure:
    """Returns the compiler's flags for named options, or a Failure that names the unknown one."""
    chosen = {name: default for name, (_, default, _) in OPTIONS.items()}
    for name, given in options:
        if name not in OPTIONS:
            known = ", ".join(f"{key} ({what})" for key, (what, _, _) in OPTIONS.items())
            return Failure(stage="build", kind="option", message=f"unknown option {name!r}; known are {known}")
        chosen[name] = given
    if chosen["prefer_vector_width"] and not compiler.machine.startswith(("x86", "i686")):
        message = f"option 'prefer_vector_width' is for x86 only; this compiler builds for {compiler.machine}"
        return Failure(stage="build", kind="option", message=message)
    flags = [*BASE_FLAGS]
    for name, given in chosen.items():
        what, default, translate = OPTIONS[name]
        translated = translate(given)
        if translated is None:
            message = f"option {name!r} is {given!r}; it can be {what}"
            return Failure(stage="build", kind="option", message=message)
        flags += translated if given or isinstance(default, bool) else ()
    flags += [flag for flag in flags_of_machine(compiler) if flag]
    return tuple(flags)


def flags_of_machine(compiler: Compiler) -> tuple[str, ...]:
    """Returns flags that depend on the compiler's make or its machine."""
    is_clang = "clang" in compiler.banner
    rpath = ("-fno-openmp-implicit-rpath",) if is_clang else ()
    # Out-of-line atomics come with a constructor that probes the processor.
    outline = () if compiler.machine.startswith("x86") or is_clang else ("-mno-outline-atomics",)
    return (ERROR_LIMITS["clang++" if is_clang else "g++"], *outline, *rpath)
