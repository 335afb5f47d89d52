"""Which part of the jail keeps CUDA out: the jail as it is, the jail without each layer, and each restriction alone.

    python benchmarks/jail_cuda.py

One line for each: what cuInit, the context and an allocation say (0 is success). Takes about half a minute with a GPU.
On the first H200 that was tried, cuInit said 304 in every jail, with and without Landlock and seccomp, and 0 outside.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from kernelwright.jail import Jail, cell, enter

PROBE = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
said = [cuda.cuInit(0)]
if not said[0]:
    said.append(cuda.cuDeviceGet(ctypes.byref(device), 0))
    said.append(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    cuda.cuCtxSetCurrent(context)
    said.append(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20)))
print(*said)
"""
COMMAND = [sys.executable, "-I", "-S", "-c", PROBE]
WAIT_S = 30.0
GPU = Jail(memory_bytes=16 << 30, devices=("nvidia",))


def plainly(restrict: Callable[[], object] = lambda: None, environment: dict[str, str] | None = None) -> str:
    """Returns what the probe says in a child with one restriction."""
    done = subprocess.run(
        COMMAND, capture_output=True, text=True, timeout=WAIT_S, check=False, preexec_fn=restrict, env=environment
    )
    return (done.stdout + done.stderr).strip()[-200:] or f"status {done.returncode}"


def jailed(**changes: object) -> str:
    """Returns what the probe says in a jail."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as log:
        fields = {"memory_bytes": GPU.memory_bytes, "devices": GPU.devices, **changes}
        try:
            started = Jail(write=folder, **fields).start(COMMAND, stdout=log.fileno(), stderr=log.fileno())  # type: ignore[arg-type]
            status = started.wait(WAIT_S)
            started.close()
        except Exception as error:  # noqa: BLE001  (the next line must come)
            return f"{type(error).__name__}: {error}"[:200]
        log.seek(0)
        return log.read().decode().strip()[-200:] or f"status {status} {started.reason}"


def limits() -> dict[int, int]:
    """Returns the jail's limits, by resource."""
    return dict(GPU._limits(cell.default_processes()))


def without_limits(*left: int) -> str:
    """Returns what the probe says in a jail that leaves some limits as they were."""
    kept = cell.Jail._limits
    cell.Jail._limits = lambda self, processes: [one for one in kept(self, processes) if one[0] not in left]  # type: ignore[method-assign]
    try:
        return jailed()
    finally:
        cell.Jail._limits = kept  # type: ignore[method-assign]


def main() -> None:
    """Prints the table."""
    names = {getattr(resource, name): name for name in dir(resource) if name.startswith("RLIMIT_")}
    passed = {name: os.environ[name] for name in cell.PASSED_ON if name in os.environ}
    libc = ctypes.CDLL(None)
    rows: list[tuple[str, Callable[[], str]]] = [
        ("outside", plainly),
        ("the jail", jailed),
        *((f"the jail, {name}", lambda e=name: jailed(engine=e)) for name in ("bubblewrap", "namespaces", "landlock")),
        ("the jail without seccomp", lambda: jailed(seccomp=False)),
        ("the jail without Landlock", lambda: jailed(landlock=False)),
        ("the jail without either", lambda: jailed(seccomp=False, landlock=False)),
        *((f"the jail without {names[which]}", lambda w=which: without_limits(w)) for which in limits()),
        ("the jail without any limit", lambda: without_limits(*limits())),
        ("the jail with all variables", lambda: jailed_with(dict(os.environ))),
        *(
            (f"only {names[which]} {most}", lambda w=which, m=most: plainly(lambda: resource.setrlimit(w, (m, m))))
            for which, most in limits().items()
        ),
        ("only the jail's variables", lambda: plainly(environment=passed)),
        ("only no new privileges", lambda: plainly(lambda: libc.prctl(38, 1, 0, 0, 0))),
        ("only no capabilities", lambda: plainly(enter.drop_rights)),
        ("only undumpable", lambda: plainly(lambda: libc.prctl(4, 0, 0, 0, 0))),
        ("only a group of its own", lambda: plainly(lambda: os.setpgid(0, 0))),
        ("only a user namespace", lambda: plainly(lambda: enter.unshare(["user"]))),
        ("only namespaces", lambda: plainly(lambda: enter.unshare(["user", "mount", "ipc", "names", "network"]))),
        ("only a user and a network namespace", lambda: plainly(lambda: enter.unshare(["user", "network"]))),
    ]  # fmt: skip
    for name, probe in rows:
        try:
            said = probe()
        except Exception as error:  # noqa: BLE001  (the next line must come)
            said = f"{type(error).__name__}: {error}"[:200]
        print(f"{name:40} {said.splitlines()[-1] if said else ''}", flush=True)


def jailed_with(environment: dict[str, str]) -> str:
    """Returns what the probe says in a jail that passes all variables on."""
    kept = cell.PASSED_ON
    cell.PASSED_ON = tuple(environment)  # type: ignore[assignment]
    try:
        return jailed()
    finally:
        cell.PASSED_ON = kept


if __name__ == "__main__":
    main()
