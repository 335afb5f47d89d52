"""What this machine has, what is missing, and the exact command that mends it.

Every finding is looked up, not assumed: the compiler is run on a small OpenMP program, and the
lock that holds sealed kernels is asked of the operating system.
Not here: fixing anything.
"""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from kernelwright import environment, jail
from kernelwright.languages import device_probe
from kernelwright.store.salvage import examine
from kernelwright.types import value

PROGRAM = """
#include <omp.h>
#include <cmath>
extern "C" int kw_probe(void) { int n = 0;
#pragma omp parallel reduction(+:n)
n += 1;
return n; }
"""
MIN_MEMORY_BYTES = 4 << 30
ANSWER_S = 30.0
"""How long a compiler may take for a small program."""
MIN_DISK_BYTES = 1 << 30
PACKAGE_MANAGERS = (
    ("apt-get", "apt-get install -y {}", {
        "compiler": "g++", "binutils": "binutils", "headers": "python3-dev", "bubblewrap": "bubblewrap",
        "checkers": "g++",
    }),
    ("dnf", "dnf install -y {}", {"compiler": "gcc-c++", "binutils": "binutils", "headers": "python3-devel",
             "bubblewrap": "bubblewrap", "checkers": "libasan libubsan libtsan"}),
    ("pacman", "pacman -S --noconfirm {}", {"compiler": "gcc", "binutils": "binutils", "headers": "python",
                "bubblewrap": "bubblewrap", "checkers": "gcc"}),
    ("apk", "apk add {}", {"compiler": "g++", "binutils": "binutils", "headers": "python3-dev",
             "bubblewrap": "bubblewrap", "checkers": "g++"}),
    ("zypper", "zypper install -y {}", {"compiler": "gcc-c++", "binutils": "binutils", "headers": "python3-devel",
                "bubblewrap": "bubblewrap", "checkers": "gcc"}),
)  # fmt: skip

State = Literal["ok", "optional", "missing"]


@value
class Finding:
    """One line of the doctor's answer."""

    subject: str
    state: State
    """`optional`: kernelwright works without it, and the text says what is lost."""
    found: str
    fix: str = ""
    """The command, or the one step, that mends it."""


def findings(store: Path | None = None) -> tuple[Finding, ...]:
    """Returns what was found on this machine, in the order a reader needs it.

    Args:
        store: a store file to check as well, read in full.
    """
    checks: tuple[Callable[[], Finding], ...] = (
        _system, _python, _compiler, _inspector, _torch, _headers, _lock, _jail, _checkers, _processors, _memory,
        _cache, _gpu,
        _nvrtc, *EXTRAS, _profiler,
    )  # fmt: skip
    found = tuple(check() for check in checks)
    return (*found, _store(store)) if store else found


def install_command(part: str) -> str:
    """Returns this system's command that installs a part (compiler, binutils, headers)."""
    for tool, command, packages in PACKAGE_MANAGERS:
        if shutil.which(tool):
            return command.format(packages[part])
    return f"install the {part} with your system's package manager"


def _system() -> Finding:
    found = f"{platform.system()} {platform.release()}, {platform.machine()}"
    if platform.system() == "Linux":
        return Finding(subject="system", state="ok", found=found)
    return Finding(
        subject="system", state="missing", found=found, fix="judging needs Linux (a container or WSL 2 will do)"
    )


def _python() -> Finding:
    found = f"Python {platform.python_version()}"
    state: State = "ok" if sys.version_info >= (3, 11) else "missing"
    return Finding(
        subject="python", state=state, found=found, fix="" if state == "ok" else "install Python 3.11 or newer"
    )


def _compiler() -> Finding:
    path = environment.compiler()
    if path is None:
        asked = environment.named_compiler()
        found = f"KERNELWRIGHT_CXX names {asked!r}, which is not there" if asked else "no C++ compiler on PATH"
        return Finding(subject="compiler", state="missing", found=found, fix=_compiler_fix())
    version, _ = _answer([path, "--version"])
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.cpp")
        source.write_text(PROGRAM)
        command = [
            path,
            "-std=c++17",
            "-O3",
            "-march=native",
            "-fopenmp",
            "-fPIC",
            "-shared",
            str(source),
            "-o",
            f"{folder}/probe.so",
        ]
        _, said = _answer(command)
        made = Path(folder, "probe.so").is_file()
    if not made:
        reason = next((line for line in said.splitlines() if "error" in line), "it fails on a small program")
        found = f"{version or path}: {reason}"
        return Finding(subject="compiler", state="missing", found=found, fix=_compiler_fix())
    return Finding(subject="compiler", state="ok", found=f"{version} at {path}, C++17 and OpenMP work")


def _compiler_fix() -> str:
    named = environment.named_compiler()
    return "unset KERNELWRIGHT_CXX, or name another compiler with it" if named else install_command("compiler")


def _answer(command: list[str]) -> tuple[str, str]:
    """Returns the first line that a command prints, and all that it says on standard error or why it cannot run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"error: {error}"
    return done.stdout.partition("\n")[0], done.stderr


def _inspector() -> Finding:
    path = shutil.which("objdump")
    if path:
        return Finding(subject="objdump", state="ok", found=path)
    return Finding(
        subject="objdump", state="missing", found="not on PATH; kernels are inspected with it before they are loaded",
        fix=install_command("binutils"),
    )  # fmt: skip


def _torch() -> Finding:
    try:
        return Finding(subject="torch", state="ok", found=f"torch {importlib.metadata.version('torch')}")
    except importlib.metadata.PackageNotFoundError:
        return Finding(
            subject="torch", state="missing", found="not installed", fix=f"{sys.executable} -m pip install torch"
        )


def _headers() -> Finding:
    header = Path(sysconfig.get_paths()["include"], "Python.h")
    if header.exists():
        return Finding(subject="Python.h", state="ok", found=str(header))
    return Finding(
        subject="Python.h", state="optional", found="missing: torch.compile may not work, and is then no baseline",
        fix=install_command("headers"),
    )  # fmt: skip


def _lock() -> Finding:
    status = Path("/proc/self/status")
    if status.exists() and "Seccomp:" in status.read_text():
        return Finding(subject="seccomp", state="ok", found="the kernel can lock runners in")
    return Finding(
        subject="seccomp", state="missing", found="this kernel has no seccomp: sealed kernels cannot be locked in",
        fix="use a Linux kernel built with CONFIG_SECCOMP_FILTER",
    )  # fmt: skip


def _jail() -> Finding:
    """What holds code of strangers while it is built, or run as Python: every engine is tried."""
    found = jail.strength()
    fix = "; or ".join(_jail_fixes(dict(found.problems)))
    if not found.engines:
        said = "; ".join(f"{engine}: {problem}" for engine, problem in found.problems)
        return Finding(subject="jail", state="missing", found=f"nothing holds other people's code ({said})", fix=fix)
    text = ", ".join(found.layers)
    if found.engines[0] == "landlock":
        lost = "no namespaces: other processes can be seen, though not touched"
        return Finding(subject="jail", state="optional", found=f"{text}; {lost}", fix=fix)
    return Finding(subject="jail", state="ok", found=text)


def _jail_fixes(problems: dict[str, str]) -> list[str]:
    fixes = [install_command("bubblewrap")] if "not installed" in problems.get("bubblewrap", "") else []
    switches = (
        ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
         "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
        ("/proc/sys/user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=1024"),
    )  # fmt: skip
    fixes += [command for path, closed, command in switches if _lines(path)[:1] == [closed]]
    if not fixes and "namespaces" in problems:
        fixes.append("in a container: start it with --security-opt seccomp=unconfined")
    return fixes


def _checkers() -> Finding:
    path = environment.compiler()
    names = ("address", "undefined", "thread")
    libraries = dict(zip(names, ("libasan.so", "libubsan.so", "libtsan.so"), strict=True))
    missing = [
        n
        for n in names
        if path and "clang" not in path and "/" not in _answer([path, f"-print-file-name={libraries[n]}"])[0]
    ]
    if path and not missing:
        return Finding(subject="checkers", state="ok", found=f"{', '.join(names)}: finalists are checked with them")
    lost = f"no {', '.join(missing or names)}: finalists are not checked for what these find"
    return Finding(subject="checkers", state="optional", found=lost, fix=install_command("checkers"))


def _processors() -> Finding:
    names = [line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    name = names[0] if names else platform.machine()
    simd = [
        s for s in ("avx512f", "avx2", "sse4_2", "asimd") if any(s in line.split() for line in _lines("/proc/cpuinfo"))
    ]
    found = f"{name}, {simd[0] if simd else 'no SIMD found'}, {environment.threads()} threads"
    return Finding(subject="processor", state="ok", found=found)


def _memory() -> Finding:
    sizes = [int(line.split()[1]) * 1024 for line in _lines("/proc/meminfo") if line.startswith("MemAvailable:")]
    if not sizes:
        return Finding(subject="memory", state="optional", found="unknown")
    enough = sizes[0] >= MIN_MEMORY_BYTES
    return Finding(
        subject="memory", state="ok" if enough else "optional", found=f"{sizes[0] / 2**30:.1f} GiB available",
        fix="" if enough else "close other programs: large problems need about 4 GiB",
    )  # fmt: skip


def _cache() -> Finding:
    folder = environment.home()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding(
            subject="cache", state="missing", found=str(error), fix="export KERNELWRIGHT_HOME=/a/folder/you/can/write"
        )
    state: State = "ok" if free >= MIN_DISK_BYTES else "missing"
    fix = "" if state == "ok" else f"free some space, or empty {folder}"
    return Finding(subject="cache", state=state, found=f"{folder}, {free / 2**30:.0f} GiB free", fix=fix)


def _nvrtc() -> Finding:
    found = device_probe.toolchain()
    if not found.nvrtc:
        what = f"CUDA C++ cannot be compiled for any GPU ({found.fault})"
        also = f"; nvcc {found.nvcc_version} can stand in" if found.nvcc else ""
        return Finding(subject="NVRTC", state="optional", found=what + also, fix=device_probe.INSTALL)
    if not found.bundled and not found.headers:
        what = f"NVRTC {found.nvrtc}, but no CUDA headers: kernels with cuda_fp16.h and the like do not compile"
        fix = f"{sys.executable} -m pip install 'nvidia-cuda-nvrtc>=13.3,<14'"
        return Finding(subject="NVRTC", state="optional", found=what, fix=fix)
    headers = "its own headers" if found.bundled else f"headers in {found.headers[0]}"
    also = f"; nvcc {found.nvcc_version} at {found.nvcc}" if found.nvcc else "; no nvcc, and none is needed"
    return Finding(subject="NVRTC", state="ok", found=f"NVRTC {found.nvrtc}, {headers}{also}")


def _extra(subject: str, package: str, extra: str, gives: str) -> Callable[[], Finding]:
    """A check for one optional package: what it gives, and the command that adds it."""

    def check() -> Finding:
        try:
            found = f"{package} {importlib.metadata.version(package)}"
        except importlib.metadata.PackageNotFoundError:
            fix = f"{sys.executable} -m pip install 'kernelwright[{extra}]'"
            return Finding(subject=subject, state="optional", found=f"not installed: {gives}", fix=fix)
        return Finding(subject=subject, state="ok", found=found)

    return check


EXTRAS = (
    _extra("nvdisasm", "nvidia-cuda-nvdisasm", "compile", "kernelwright analyze reads machine code with it"),
    _extra("Triton", "triton", "triton", "kernels in Triton"),
    _extra("cuTile", "cuda-tile", "tile", "kernels in cuTile Python"),
    _extra("CuTe DSL", "nvidia-cutlass-dsl", "cute", "kernels in CuTe DSL, under NVIDIA's own licence"),
    _extra("cuda.core", "cuda-core", "compile", "kernels are launched with it"),
    _extra("NVML", "nvidia-ml-py", "gpu", "clocks, power and temperature beside every measurement"),
    _extra("nvmath", "nvmath-python", "baselines", "FFTs by cuFFT as candidates"),
)


def _profiler() -> Finding:
    tools = [name for name in ("ncu", "compute-sanitizer") if shutil.which(name)]
    missing = [name for name in ("ncu", "compute-sanitizer") if name not in tools]
    if not missing:
        return Finding(subject="profiler", state="ok", found=", ".join(tools))
    lost = {"ncu": "no profiles (analyze --profile)", "compute-sanitizer": "no memory checks of GPU kernels"}
    found = "; ".join(f"{name} is not on PATH: {lost[name]}" for name in missing)
    return Finding(
        subject="profiler", state="optional", found=found,
        fix="install the CUDA toolkit's nsight-compute and cuda-sanitizer packages",
    )  # fmt: skip


def _gpu() -> Finding:
    answer = device_probe.device()
    if answer.fault:
        loaded = Path("/dev/nvidiactl").exists()
        found = f"{'a driver is loaded, but' if loaded else 'none:'} {answer.fault}; problems can be run on the CPU"
        fix = f"{sys.executable} -m pip install 'kernelwright[gpu]'" if loaded else ""
        return Finding(subject="GPU", state="optional", found=found, fix=fix)
    driver = f"driver {answer.driver_release or 'of unknown release'} for CUDA {answer.driver}"
    memory = f"{answer.memory_bytes / 2**30:.0f} GiB"
    return Finding(subject="GPU", state="ok", found=f"{answer.name}, {answer.architecture}, {memory}, {driver}")


def _store(path: Path) -> Finding:
    if not path.exists():
        fix = "give the store.sqlite of an --out folder"
        return Finding(subject="store", state="missing", found=f"no file {path}", fix=fix)
    faults = examine(path)
    if faults:
        found = f"{path}: {len(faults)} faults, first: {faults[0]}"
        fix = f"kernelwright doctor --store {path} --salvage NEW.sqlite copies what can be trusted"
        return Finding(subject="store", state="missing", found=found, fix=fix)
    return Finding(subject="store", state="ok", found=f"{path}: every digest holds")


def _lines(path: str) -> list[str]:
    file = Path(path)
    return file.read_text(errors="replace").splitlines() if file.exists() else []
