"""Wheels and hub layouts: they run without kernelwright, a compiler or a network."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kernelwright.deploy.package import runtime_sources, write_hub_layout, write_wheel
from kernelwright.errors import UserError

USE = """
import sys
sys.path.insert(0, {path!r})
import torch
{load}
x, w = torch.linspace(-1, 1, 512).view(8, 64), torch.linspace(1, 2, 64)
assert torch.equal(module.scale_relu(x, w), torch.relu(x * w))
assert module.operators["scale_relu"].launched() == 1
print(sorted(m for m in sys.modules if m.split(".")[0] in ("kernelwright", "triton")))
"""


def used(path: Path, load: str) -> str:
    """Returns which of our own modules a program loads that has the package alone, in a Python without ours."""
    code = USE.format(path=str(path), load=load)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={"PATH": "/nowhere", "HOME": str(path)}, cwd=path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_wheel_installs_without_a_network_and_runs_without_us(scale_bundle: Path, tmp_path: Path) -> None:
    wheel = write_wheel(scale_bundle, tmp_path, name="my-kernels")
    assert wheel.name.startswith("my_kernels-1.0.0-py3-none-linux_")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        rows = archive.read("my_kernels-1.0.0.dist-info/RECORD").decode().splitlines()
        assert {row.split(",")[0] for row in rows} == set(archive.namelist())
        assert "Requires-Dist: torch>=2.11" in archive.read("my_kernels-1.0.0.dist-info/METADATA").decode()
    command = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--quiet", "--target"]
    subprocess.run([*command, str(tmp_path / "site"), str(wheel)], check=True, env={"PATH": "/nowhere"})
    assert used(tmp_path / "site", "import my_kernels as module") == "[]"
    assert write_wheel(scale_bundle, tmp_path / "again", name="my-kernels").read_bytes() == wheel.read_bytes()
    with pytest.raises(UserError, match="no name"):
        write_wheel(scale_bundle, tmp_path, name="../x")


def test_the_hub_layout_loads_from_both_of_its_places(scale_bundle: Path, tmp_path: Path) -> None:
    root = write_hub_layout(scale_bundle, tmp_path / "repo", name="my-kernels")
    variant = root / "build" / "torch-cpu"
    metadata = json.loads((variant / "metadata.json").read_text())
    assert metadata["backend"] == {"type": "cpu"}
    assert metadata["python-depends"] == []
    load = """
import importlib.util
spec = importlib.util.spec_from_file_location({name!r}, {file!r}, submodule_search_locations=[{folder!r}])
module = importlib.util.module_from_spec(spec)
sys.modules[{name!r}] = module
spec.loader.exec_module(module)
"""
    for folder in (variant, variant / "my_kernels"):
        text = load.format(name="unique_name", file=str(folder / "__init__.py"), folder=str(folder))
        assert used(tmp_path, text) == "[]"
    with pytest.raises(UserError, match="not empty"):
        write_hub_layout(scale_bundle, root)


def test_what_is_carried_names_nothing_of_ours_by_its_full_name() -> None:
    for path, text in runtime_sources().items():
        assert "from kernelwright" not in text, path
        assert "import kernelwright" not in text, path
