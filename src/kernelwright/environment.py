"""Everything that is read from the environment, in one place.

KERNELWRIGHT_HOME     folder for compiled results and other caches (default ~/.cache/kernelwright)
KERNELWRIGHT_CXX      the C++ compiler to use (default: the first of g++, c++, clang++ on PATH)
KERNELWRIGHT_DISABLE  not empty and not 0: deployed kernels are off and every call goes to its original
KERNELWRIGHT_THREADS  threads for kernels and baselines alike (default: the CPUs this process may use)
KERNELWRIGHT_API_KEY  the key for a model that is named with its address (NAME@URL)
KERNELWRIGHT_ENV_TOKEN  what clients of `kernelwright env` must send; without it only this machine is served
KERNELWRIGHT_TURNS    folder of the turns that judges on one device take (set by `kernelwright bench`)
KERNELWRIGHT_DEVICE_BYTES  device memory that one of them may use (set by `kernelwright bench`)
*_API_KEY             the keys of language models' providers, and *_BASE_URL another address of one (llm/naming.py)
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from kernelwright.errors import UserError

MOST_THREADS = 256
"""What KERNELWRIGHT_THREADS may be on any machine: a few thousand end torch with a segmentation fault."""


def home() -> Path:
    """Returns the cache folder; it is made on first use by whoever writes to it."""
    given = os.environ.get("KERNELWRIGHT_HOME")
    return Path(given).expanduser() if given else Path.home() / ".cache" / "kernelwright"


def threads() -> int:
    """Returns how many threads kernels and baselines may use.

    Raises:
        UserError: when KERNELWRIGHT_THREADS is no positive whole number, or far beyond this machine.
    """
    given = os.environ.get("KERNELWRIGHT_THREADS")
    if given is None:
        return len(os.sched_getaffinity(0))
    if not given.isdecimal() or int(given) < 1:
        raise UserError(f"KERNELWRIGHT_THREADS is {given!r}", "set it to a positive whole number")
    most = max(MOST_THREADS, os.cpu_count() or 1)
    if int(given) > most:
        raise UserError(f"KERNELWRIGHT_THREADS is {given}", f"set it to at most {most}")
    return int(given)


def disabled() -> bool:
    """Tells whether deployed kernels are turned off."""
    return os.environ.get("KERNELWRIGHT_DISABLE", "0") not in ("", "0")


TURNS, DEVICE_BYTES = "KERNELWRIGHT_TURNS", "KERNELWRIGHT_DEVICE_BYTES"


def turns() -> Path | None:
    """Returns the folder of the turns at a device, None where nobody else judges on it."""
    given = os.environ.get(TURNS)
    return Path(given) if given else None


def sharing(device: str, folder: Path) -> dict[str, str]:
    """Returns the variables of a process that judges on one GPU in turns with others, whose files lie in a folder."""
    return {"CUDA_VISIBLE_DEVICES": device, TURNS: str(folder / device)}


def device_bytes() -> int | None:
    """Returns how much device memory this process may use, None for all there is."""
    given = os.environ.get(DEVICE_BYTES, "")
    return int(given) if given.isdecimal() else None


def visible_devices() -> list[str]:
    """Returns the GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    if (named := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [name for name in named.split(",") if name]
    count = sum(file.name.removeprefix("nvidia").isdigit() for file in Path("/dev").glob("nvidia*"))
    return [str(number) for number in range(count)]


def named_compiler() -> str:
    """Returns what KERNELWRIGHT_CXX says, empty where it says nothing."""
    return os.environ.get("KERNELWRIGHT_CXX", "")


def compiler() -> str | None:
    """Returns the path of the C++ compiler to use, None where there is none."""
    given = named_compiler()
    names = (given,) if given else ("g++", "c++", "clang++")
    return next((path for name in names if (path := shutil.which(name))), None)


LEAST_SECRET = 8
"""Characters from which a variable's value is taken out of texts: a shorter one would be found in innocent words."""
SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")


def key(name: str) -> str:
    """Returns a key, empty where it is not set."""
    return os.environ.get(name, "").strip()


def base_url(provider: str) -> str:
    """Returns what PROVIDER_BASE_URL says, empty where it says nothing."""
    return os.environ.get(f"{provider.upper()}_BASE_URL", "")


def secrets() -> tuple[str, ...]:
    """Returns the values of all variables whose names say that they are secret, the longest first."""
    found = {
        text.strip()
        for name, text in os.environ.items()
        if any(word in name.upper().split("_") for word in SECRET_WORDS) and len(text.strip()) >= LEAST_SECRET
    }
    return tuple(sorted(found, key=lambda text: (-len(text), text)))
