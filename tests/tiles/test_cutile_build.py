"""What tileiras is run with."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from kernelwright.tiles import cutile_build


@pytest.mark.parametrize("wanted", [False, True])
def test_a_toolkit_is_named_only_where_tileiras_belongs_to_it(
    wanted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tileiras = tmp_path / "tileiras"
    tileiras.write_text("#!/bin/sh\nenv\n")
    tileiras.chmod(0o755)
    found = SimpleNamespace(path=str(tileiras), ld_path="", bin_path="/usr/bin:/bin", pass_cuda_home_var=wanted)
    monkeypatch.setattr("cuda.tile._compile._find_compiler_bin", lambda: found)
    monkeypatch.setenv("CUDA_HOME", "/an/older/toolkit")
    ended = cutile_build._assemble(tmp_path, "sm_90", 3)
    assert ended.returncode == 0
    assert ("CUDA_HOME=/an/older/toolkit" in ended.stdout.splitlines()) is wanted
