"""Writes the environment package for the verifiers library: the layout of its own `vf-init`, filled.

The package holds no problem and no judge; it asks a gym. Its parts lie in package/, are never imported from here, and
work without kernelwright being installed beside them. Not here: what the gym answers (server.py).
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from kernelwright.errors import UserError

PARTS = Path(__file__).with_name("package")
NAME = "kernelwright_env"
PLACES = {
    "pyproject.toml": "pyproject.toml", "README.md": "README.md", "entry.py": f"{NAME}/__init__.py",
    "client.py": f"{NAME}/client.py", "taskset.py": f"{NAME}/taskset.py",
}  # fmt: skip


def write_package(folder: Path) -> tuple[Path, ...]:
    """Writes the package into a folder and returns its files.

    Raises:
        UserError: when the folder holds something else already, or cannot be written.
    """
    if folder.exists() and any(folder.iterdir()) and not (folder / NAME).is_dir():
        raise UserError(f"{folder} is not empty", "name a new folder with --package")
    version = metadata.version("kernelwright")
    written = []
    try:
        for part, place in PLACES.items():
            path = folder / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text((PARTS / part).read_text(encoding="utf-8").replace("0.0.0", version, 1), encoding="utf-8")
            written.append(path)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}", "name another folder") from error
    return tuple(written)
