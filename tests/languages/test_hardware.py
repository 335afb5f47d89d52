from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright import environment
from kernelwright.errors import MissingTool, UserError
from kernelwright.languages import Builder, bounded, build_program, detect_target, hardware, table
from kernelwright.languages.cpp import Cpp

ARM = "".join(
    f"processor\t: {n}\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd evtstrm aes atomics fphp asimdhp sve bf16 i8mm\n"
    "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x1\nCPU part\t: 0xd40\nCPU revision\t: 1\n\n"
    for n in range(2)
)


def test_this_machine_is_described() -> None:
    target = detect_target()
    assert target.kind == "cpu"
    assert target.architecture
    assert target.threads == environment.threads()
    assert list(target.features) == sorted(set(target.features))
    names = dict(target.toolchain)
    assert names["python"] == ".".join(map(str, sys.version_info[:3]))
    assert "torch" in names
    compiler = hardware.find_compiler()
    assert names[compiler.name] == compiler.version
    assert compiler.version in subprocess.run([compiler.path, "--version"], capture_output=True, text=True).stdout
    assert detect_target() == target


def test_no_framework_is_imported() -> None:
    code = (
        "import sys; from kernelwright import languages; languages.detect_target(); languages.load('cpp'); "
        "assert not {'torch', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_arm_machines_are_described(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text(ARM)
    monkeypatch.setattr(hardware, "CPUINFO", path)
    target = detect_target()
    assert target.architecture == "Arm Neoverse V1"
    assert target.features == ("asimd", "asimdhp", "atomics", "bf16", "fphp", "i8mm", "sve")
    known = hardware.cpu_identity()
    path.write_text(ARM.replace("0xd40", "0xd99"))
    assert "0xd99" in detect_target().architecture
    assert hardware.cpu_identity() != known


def test_features_are_those_of_every_processor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text("model name\t: X\nflags\t: avx avx2 smep\n\nmodel name\t: X\nflags\t: avx smep\n")
    monkeypatch.setattr(hardware, "CPUINFO", path)
    assert detect_target().features == ("avx",)


def test_last_level_cache_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for index, (level, size, kind) in enumerate(
        [("1", "32K", "Data"), ("1", "64K", "Instruction"), ("3", "32768K", "Unified"), ("2", "1M", "Unified")]
    ):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        for name, text in (("level", level), ("size", size), ("type", kind)):
            (folder / name).write_text(text + "\n")
    monkeypatch.setattr(hardware, "CACHES", tmp_path)
    assert detect_target().cache_bytes == 32 << 20
    monkeypatch.setattr(hardware, "CACHES", tmp_path / "none")
    assert detect_target().cache_bytes == 0


def test_missing_compiler_names_its_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("KERNELWRIGHT_CXX", raising=False)
    target = detect_target()
    assert {name for name, _ in target.toolchain} == {"python", "torch"}
    with pytest.raises(MissingTool) as caught:
        Builder(target)
    assert "apt-get install g++" in caught.value.fix


def test_compiler_that_cannot_run_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "cxx"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("KERNELWRIGHT_CXX", str(broken))
    with pytest.raises(MissingTool, match="cannot be run"):
        hardware.find_compiler()


def test_changed_compiler_is_asked_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "cxx"
    monkeypatch.setenv("KERNELWRIGHT_CXX", str(program))
    for version in ("9.1.0", "9.2.0"):
        program.write_text(f"#!/bin/sh\necho 'cxx (Some 1.2) {version}'\n")
        program.chmod(0o755)
        os.utime(program, ns=(1, int(version[2])))
        assert hardware.find_compiler().version == version


def test_languages_load_by_name() -> None:
    assert table.names()[0] == "cpp"
    assert isinstance(table.load("cpp"), Cpp)
    with pytest.raises(UserError, match=r"there is no language 'rust'; choose one of: cpp"):
        table.load("rust")


def test_a_compiler_that_makes_nothing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = tmp_path / "empty.cpp"
    source.write_text("int main() {}\n")
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KERNELWRIGHT_CXX", "/bin/true")
    with pytest.raises(MissingTool, match=r"/bin/true made no program from empty\.cpp; name another"):
        build_program(source)
    monkeypatch.setenv("KERNELWRIGHT_CXX", "no-such-compiler")
    with pytest.raises(MissingTool, match="KERNELWRIGHT_CXX names 'no-such-compiler'"):
        build_program(source)


def test_a_full_disk_is_no_fault_of_what_is_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    command = ["/bin/sh", "-c", "exit 1"]
    failed = bounded.run(command, folder=tmp_path, temporary=tmp_path / "temporary", limits=bounded.Limits())
    assert failed.status == 1
    monkeypatch.setattr(bounded, "FULL_BYTES", 1 << 62)
    with pytest.raises(UserError, match="is full"):
        bounded.run(command, folder=tmp_path, temporary=tmp_path / "temporary", limits=bounded.Limits())
