"""What this machine is: the target that candidates are built for and timed on.

Reads /proc and /sys and asks the compiler for its version; never imports a framework.
Not here: what is missing and how to install it (doctor.py).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path

from kernelwright import environment
from kernelwright.errors import MissingTool, UserError
from kernelwright.types import Target, value

CPUINFO = Path("/proc/cpuinfo")
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
FEATURES = re.compile(
    r"sse4_2|avx|avx2|fma|f16c|bmi[12]|avx_\w+|avx512\w+|avx10\w*|amx_\w+|gfni|vaes|vpclmulqdq|popcnt"  # x86
    r"|asimd\w*|fp16|fphp|sve\w*|sme(?!p)\w*|bf16|i8mm|ebf16|atomics|fcma"  # ARM
)
"""The instruction-set features, as Linux names them, that can change generated code."""
ARM_PARTS = {
    ("0x41", "0xd0c"): "Arm Neoverse N1", ("0x41", "0xd40"): "Arm Neoverse V1", ("0x41", "0xd49"): "Arm Neoverse N2",
    ("0x41", "0xd4f"): "Arm Neoverse V2", ("0x41", "0xd84"): "Arm Neoverse V3", ("0x41", "0xd8e"): "Arm Neoverse N3",
    ("0x41", "0xd08"): "Arm Cortex-A72", ("0x41", "0xd0b"): "Arm Cortex-A76", ("0xc0", "0xac3"): "Ampere-1",
}  # fmt: skip
NO_COMPILER = "install one: apt-get install g++"
BAD_COMPILER = "name another with KERNELWRIGHT_CXX; `kernelwright doctor` tries it"


@value
class Compiler:
    """A C++ compiler on this machine."""

    path: str
    name: str
    """The program's name: g++, clang++ ..."""
    version: str
    """The dotted version: 12.2.0."""
    banner: str
    """The first line of `--version`, which also names the distribution's build."""
    machine: str
    """The triplet that it compiles for: x86_64-linux-gnu."""


def find_compiler() -> Compiler:
    """Returns the C++ compiler to use.

    Raises:
        MissingTool: when there is none, or the one that was named cannot be run.
    """
    path = environment.compiler()
    if path is None:
        if asked := environment.named_compiler():
            raise MissingTool(f"KERNELWRIGHT_CXX names {asked!r}, which is no program here", BAD_COMPILER)
        raise MissingTool("there is no C++ compiler on this machine (looked for g++, c++, clang++)", NO_COMPILER)
    path = os.path.abspath(path)  # it runs in other folders
    return _ask_compiler(path, Path(path).resolve().stat().st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _ask_compiler(path: str, modified_ns: int) -> Compiler:
    """The time of change is part of the call, so that an upgrade under a long-lived process is seen."""
    del modified_ns
    answers = []
    for option in ("--version", "-dumpmachine"):
        try:
            done = subprocess.run([path, option], capture_output=True, text=True, timeout=20, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            raise MissingTool(f"the C++ compiler {path} cannot be run: {error}", BAD_COMPILER) from None
        answers.append(done.stdout.strip())
    banner = answers[0].splitlines()[0] if answers[0] else ""
    numbers = re.findall(r"\d+\.\d+(?:\.\d+)*", banner)
    version = numbers[-1] if numbers else "unknown"
    return Compiler(path=path, name=Path(path).name, version=version, banner=banner, machine=answers[1])


def detect_target() -> Target:
    """Returns this machine as a CPU target.

    A machine without a compiler gets a target whose toolchain names none: asking for a build is
    what raises MissingTool.

    Raises:
        UserError: when KERNELWRIGHT_THREADS cannot be used, or this is no Linux machine.
    """
    first, features = _cpu()
    toolchain = [("python", platform.python_version())]
    with contextlib.suppress(MissingTool):
        compiler = find_compiler()
        toolchain.append((compiler.name, compiler.version))
    with contextlib.suppress(metadata.PackageNotFoundError):
        toolchain.append(("torch", metadata.version("torch")))
    return Target(
        kind="cpu",
        architecture=_model(first),
        features=_relevant(features),
        threads=environment.threads(),
        toolchain=tuple(sorted(toolchain)),
        host=platform.node(),
        cache_bytes=_last_level_cache_bytes(),
    )


def cpu_features() -> tuple[str, ...]:
    """Returns the instruction-set features of this machine that code may use, as `Target.features` has them."""
    return _relevant(_cpu()[1])


def _relevant(features: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name in features if FEATURES.fullmatch(name)))


def cpu_identity() -> str:
    """Returns a digest of what `-march=native` can depend on: vendor, family, model, every feature."""
    first, features = _cpu()
    kept = ("vendor_id", "cpu family", "model", "stepping", "CPU implementer", "CPU part", "CPU variant")
    text = "\n".join([platform.machine(), *(f"{key}={first.get(key, '')}" for key in kept), *sorted(features)])
    return hashlib.sha256(text.encode()).hexdigest()


def _cpu() -> tuple[dict[str, str], frozenset[str]]:
    """The first processor's fields, and the features that every processor has."""
    try:
        text = CPUINFO.read_text()
    except OSError as error:
        raise UserError(f"the processor cannot be identified: {error}", "kernelwright runs on Linux") from None
    first: dict[str, str] = {}
    shared: frozenset[str] | None = None
    for line in text.splitlines():
        key, _, entry = (part.strip() for part in line.partition(":"))
        first.setdefault(key, entry)
        if key in ("flags", "Features"):
            found = frozenset(entry.split())
            shared = found if shared is None else shared & found
    return first, shared or frozenset()


def _model(first: dict[str, str]) -> str:
    if name := first.get("model name"):
        return name
    implementer, part = first.get("CPU implementer", ""), first.get("CPU part", "")
    if implementer:
        return ARM_PARTS.get((implementer, part), f"{platform.machine()} implementer {implementer} part {part}")
    return platform.machine()


def _last_level_cache_bytes() -> int:
    best = (0, 0)
    for folder in CACHES.glob("index*"):
        try:
            level, size = int((folder / "level").read_text()), (folder / "size").read_text().strip()
            if (folder / "type").read_text().strip() != "Instruction":
                best = max(best, (level, int(size[:-1]) * {"K": 1 << 10, "M": 1 << 20}[size[-1]]))
        except (OSError, ValueError, KeyError, IndexError):
            continue
    return best[1]
