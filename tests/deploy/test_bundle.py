"""Bundles: what is in them, what is refused when they are read."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.deploy.making import KERNEL, LATER, bundle, remembered

import kernelwright
from kernelwright.deploy.bundle import read_bundle
from kernelwright.deploy.export import export, keeps_data
from kernelwright.errors import UserError
from kernelwright.run.recollect import recollect
from kernelwright.types import Failure, digest, replace


def test_a_bundle_holds_kernel_source_envelope_evidence_and_gaps(scale_bundle: Path) -> None:
    (kernel,) = read_bundle(scale_bundle)
    folder = scale_bundle / "kernels" / kernel.name
    assert kernel.envelope.axes[0].high == 4096
    assert kernel.envelope.alignment_bytes == 64
    assert not kernel.serial
    assert (folder / "source" / "kernel.cpp").read_text() == KERNEL
    assert "class Model" in (folder / "reference" / "scale_relu.py").read_text()
    assert "scale_relu" in (folder / "report.html").read_text()
    gaps = json.loads((folder / "envelope.json").read_text())["not_checked"]
    assert any("gradients" in line for line in gaps)
    assert any("memory and races" in line for line in gaps)
    assert gaps[0] in (scale_bundle / "README.md").read_text()
    assert "/somewhere/else" not in (folder / "evidence.json").read_text()


def test_its_evidence_can_be_judged_again(scale_bundle: Path) -> None:
    (kernel,) = read_bundle(scale_bundle)
    again = recollect(str(kernel.binary.with_name("evidence.json")))
    assert digest(again.candidate) == digest(kernel.candidate)


def test_damage_is_named(scale_bundle: Path, tmp_path: Path) -> None:
    (kernel,) = read_bundle(scale_bundle)
    binary = kernel.binary.relative_to(scale_bundle)

    def copy() -> Path:
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        shutil.copytree(scale_bundle, tmp_path / "copy")
        return tmp_path / "copy"

    changed = copy()
    (changed / binary).write_bytes((changed / binary).read_bytes() + b"\0")
    with pytest.raises(UserError, match=r"kernel\.so is not what was exported"):
        read_bundle(changed)
    missing = copy()
    (missing / binary).unlink()
    with pytest.raises(UserError, match=r"kernel\.so is missing"):
        read_bundle(missing)
    more = copy()
    (more / binary).with_name("other.so").write_bytes(b"")
    with pytest.raises(UserError, match=r"other\.so was not exported"):
        read_bundle(more)
    newer = copy()
    manifest = json.loads((newer / "manifest.json").read_text())
    (newer / "manifest.json").write_text(json.dumps(manifest | {"format": 99}))
    with pytest.raises(UserError, match="another format"):
        read_bundle(newer)
    outside = copy()
    (outside / "manifest.json").write_text(json.dumps(manifest | {"files": {"../x": "sha256:0"}}))
    with pytest.raises(UserError, match="leads out"):
        read_bundle(outside)
    elsewhere = copy()
    shutil.copytree(elsewhere / "kernels", tmp_path / "elsewhere", dirs_exist_ok=True)
    named = f"../../elsewhere/{manifest['kernels'][0]}"
    (elsewhere / "manifest.json").write_text(json.dumps(manifest | {"kernels": [named]}))
    with pytest.raises(UserError, match="and no file of it"):
        read_bundle(elsewhere)
    deep = copy()
    (deep / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match=r"manifest\.json cannot be read"):
        read_bundle(deep)
    with pytest.raises(UserError, match="no bundle"):
        read_bundle(tmp_path)


def test_what_did_not_pass_cannot_be_exported(tmp_path: Path) -> None:
    one = remembered(tmp_path)
    failed = replace(one.record, outcome=Failure(stage="run", kind="signal", message="it crashed"))
    with pytest.raises(UserError, match="did not pass"):
        export([replace(one, record=failed)], tmp_path / "out")
    witnessed = replace(one, candidate=replace(one.candidate, language="python"))
    with pytest.raises(UserError, match="witnessed"):
        export([witnessed], tmp_path / "out")
    other = replace(one, target=replace(one.target, features=("avx9",)))
    with pytest.raises(UserError, match="was judged on"):
        export([other], tmp_path / "out")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("")
    with pytest.raises(UserError, match="did not write"):
        export([one], tmp_path / "mine")
    assert not (tmp_path / "out").exists()


def test_a_library_that_keeps_data_is_told_apart(scale_bundle: Path, tmp_path: Path) -> None:
    (kernel,) = read_bundle(scale_bundle)
    assert not keeps_data(kernel.binary)
    (counts,) = read_bundle(bundle(tmp_path, LATER))
    assert counts.serial


def test_reading_a_bundle_loads_no_framework(scale_bundle: Path) -> None:
    code = f"""
import sys
from kernelwright.deploy.bundle import read_bundle
read_bundle({str(scale_bundle)!r})
print(*(m for m in ("torch", "numpy", "triton", "cuda") if m in sys.modules))
"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.split() == []


def test_a_result_folder_is_exported_when_it_is_loaded(
    scale_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (kernel,) = read_bundle(scale_bundle)
    best = tmp_path / "result" / "best"
    shutil.copytree(kernel.binary.parent / "source", best)
    shutil.copyfile(kernel.binary.with_name("evidence.json"), best / "evidence.json")
    op = kernelwright.load(tmp_path / "result")
    assert op.problem == kernel.problem
    monkeypatch.setattr("kernelwright.deploy.stored.export", None)  # the second time it is there
    assert kernelwright.load(tmp_path / "result").kernels[0].binary == op.kernels[0].binary
