from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from kernelwright.errors import MissingTool
from kernelwright.languages import detect_device_target, device_child, device_probe, device_target


def test_the_toolchain_is_asked_of_a_child() -> None:
    found = device_probe.toolchain()
    assert found.fault == ""
    major, minor = map(int, found.nvrtc.split("."))
    assert (major, minor) >= (12, 9)
    assert found.bundled == ((major, minor) >= device_child.BUNDLED_FROM)
    assert found.bundled or all(Path(folder).is_dir() for folder in found.headers[:1])
    assert found.library_bytes > 1 << 20


def answer(monkeypatch: pytest.MonkeyPatch, text: str, error: str = "") -> None:
    def run(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 0, text, error)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(device_probe, "driver_signs", lambda: ("/dev/nvidiactl",))


DEVICE = {
    "name": "NVIDIA H200", "architecture": "sm_90a", "driver": "13.0", "driver_release": "580.159.04",
    "multiprocessors": 132, "l2_bytes": 60 << 20, "memory_bytes": 141 << 30,
}  # fmt: skip


def test_the_device_becomes_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_target, "toolchain_versions", lambda: (("nvrtc", "13.4"),))
    answer(monkeypatch, "a library's greeting\n" + json.dumps(DEVICE) + "\n")
    target = detect_device_target()
    assert (target.kind, target.architecture, target.device) == ("cuda", "sm_90a", "NVIDIA H200")
    assert target.toolchain == (("driver", "580.159.04"), ("nvrtc", "13.4"))
    assert target.cache_bytes == 60 << 20
    assert target.features == ("multiprocessors_132",)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        (json.dumps({"fault": "the driver sees no GPU"}), "", "the driver sees no GPU"),
        ("", "Segmentation fault\n", "Segmentation fault"),
        ("[]", "", "no answer"),
        ("{", "", "failed"),
    ],
)
def test_without_a_device_the_reason_is_said(
    text: str, error: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, text, error)
    with pytest.raises(MissingTool, match=words) as caught:
        detect_device_target()
    assert "doctor" in caught.value.fix


def test_a_toolchain_that_cannot_be_asked_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, "", "ImportError: libnvrtc.so.13\n")
    found = device_probe.toolchain.__wrapped__()
    assert found.nvrtc == ""
    assert "libnvrtc" in found.fault


def test_headers_are_those_nearest_to_the_compiler_s_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, version in (("a/nvidia/cu13", 13040), ("b/nvidia/cu13", 13000), ("c/nvidia/cu13", 0)):
        folder = tmp_path / name / "include"
        folder.mkdir(parents=True)
        (folder / "cuda_fp16.h").touch()
        (folder / "cuda_bf16.h").touch()
        if version:
            (folder / "cuda.h").write_text(f"#define CUDA_VERSION {version}\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / name) for name in "abc"])
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    found = device_child._header_folder((13, 0))
    assert found == tmp_path / "b/nvidia/cu13/include"
    assert device_child._headers_digest(found).startswith("k1:")
    (found / "cuda_fp16.h").write_text("changed")
    assert device_child._headers_digest(found) != device_child._headers_digest(tmp_path / "a/nvidia/cu13/include")


def test_bindings_of_another_time_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: "11.8.6")
    with pytest.raises(RuntimeError, match=r"cuda-bindings 11\.8\.6 is not between 12\.9 and 14\.0"):
        device_child._nvrtc()


def test_without_signs_of_a_driver_no_child_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_probe, "driver_signs", lambda: ())
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("a child was asked"))
    assert "no NVIDIA driver" in device_probe.device().fault


def test_signs_of_a_driver_are_looked_for_where_libraries_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libcuda.so.1").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{tmp_path}")
    assert f"{tmp_path}/libcuda.so.1" in device_probe.driver_signs()
