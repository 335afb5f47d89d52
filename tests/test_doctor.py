"""The doctor: what is missing is named with the command that mends it."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from kernelwright import doctor
from kernelwright.jail import Strength
from kernelwright.languages import device_probe
from kernelwright.store import Store
from kernelwright.types import replace


def finding(subject: str, store: Path | None = None) -> doctor.Finding:
    return next(found for found in doctor.findings(store) if found.subject == subject)


def test_this_machine_can_build_and_judge() -> None:
    states = {found.subject: found.state for found in doctor.findings()}
    assert {states[name] for name in ("system", "python", "compiler", "objdump", "torch", "seccomp", "cache")} == {"ok"}


def test_a_missing_compiler_names_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KERNELWRIGHT_CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    found = finding("compiler")
    assert (found.state, found.fix) == ("missing", doctor.install_command("compiler"))


@pytest.mark.parametrize("named", ["no-such-compiler", "/bin/true", "/bin/false"])
def test_a_compiler_that_was_named_wrongly_is_not_mended_by_installing_one(
    named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELWRIGHT_CXX", named)
    found = finding("compiler")
    assert found.state == "missing"
    assert "KERNELWRIGHT_CXX" in found.fix


def test_a_compiler_that_never_answers_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slow = tmp_path / "g++"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("KERNELWRIGHT_CXX", str(slow))
    monkeypatch.setattr(doctor, "ANSWER_S", 0.1)
    found = finding("compiler")
    assert (found.state, "timed out" in found.found) == ("missing", True)


@pytest.mark.parametrize(
    ("tool", "command"),
    [("apt-get", "apt-get install -y g++"), ("dnf", "dnf install -y gcc-c++"), (None, "install the compiler with")],
)
def test_install_commands_follow_the_system(monkeypatch: pytest.MonkeyPatch, tool: str | None, command: str) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}" if name == tool else None)
    assert doctor.install_command("compiler").startswith(command)


def test_a_compiler_that_cannot_compile_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "g++"
    broken.write_text(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo broken 1.0 && exit 0\necho 'fatal error: omp.h' >&2; exit 1\n"
    )
    broken.chmod(0o755)
    monkeypatch.setenv("KERNELWRIGHT_CXX", str(broken))
    found = finding("compiler")
    assert (found.state, found.found) == ("missing", "broken 1.0: fatal error: omp.h")


def test_a_cache_that_cannot_be_written_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(blocked / "below"))
    found = finding("cache")
    assert found.state == "missing"
    assert "KERNELWRIGHT_HOME" in found.fix


def test_a_store_is_read_in_full(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    assert "no file" in finding("store", path).found
    with Store(path):
        pass
    assert finding("store", path).state == "ok"
    path.write_bytes(path.read_bytes()[:100] + b"\0" * 5000)
    found = finding("store", path)
    assert found.state == "missing"
    assert "--salvage" in found.fix


STRONG = Strength(engines=("namespaces", "landlock"), user_namespace=True, landlock=7, seccomp=True)
NOTHING = Strength(
    engines=(), user_namespace=False, landlock=0, seccomp=True,
    problems=(("bubblewrap", "it is not installed"), ("namespaces", "unshare: Operation not permitted")),
)  # fmt: skip


@pytest.mark.parametrize(
    ("strength", "state", "word"),
    [
        (STRONG, "ok", "namespaces, Landlock 7, seccomp"),
        (replace(STRONG, engines=("landlock",), problems=NOTHING.problems), "optional", "no namespaces"),
        (NOTHING, "missing", "unshare: Operation not permitted"),
    ],
)
def test_the_jail_s_layers_are_named_with_what_is_lost(
    strength: Strength, state: str, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelwright.jail.strength", lambda: strength)
    found = finding("jail")
    assert (found.state, word in found.found) == (state, True)
    assert (doctor.install_command("bubblewrap") in found.fix) == (state != "ok")


def test_a_compiler_without_checkers_says_what_is_lost(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare = tmp_path / "g++"
    bare.write_text(
        '#!/bin/sh\ncase "$1" in -print-file-name=libtsan.so) echo libtsan.so;; *) echo /usr/lib/x.so;; esac\n'
    )
    bare.chmod(0o755)
    monkeypatch.setenv("KERNELWRIGHT_CXX", str(bare))
    found = finding("checkers")
    assert (found.state, found.found) == ("optional", "no thread: finalists are not checked for what these find")


def test_what_compiles_device_code_is_looked_up() -> None:
    found = finding("NVRTC")
    assert found.state == "ok"
    assert found.found.startswith("NVRTC 1")


def test_a_missing_toolchain_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    none = device_probe.Toolchain(fault="No module named 'cuda'", nvcc="/usr/bin/nvcc", nvcc_version="13.0.88")
    monkeypatch.setattr(device_probe, "toolchain", lambda: none)
    found = finding("NVRTC")
    assert found.state == "optional"
    assert "No module named 'cuda'" in found.found
    assert "nvcc 13.0.88 can stand in" in found.found
    assert found.fix.endswith("-m pip install 'kernelwright[compile]'")


def test_nvrtc_without_headers_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_probe, "toolchain", lambda: device_probe.Toolchain(nvrtc="13.0"))
    found = finding("NVRTC")
    assert (found.state, "no CUDA headers" in found.found) == ("optional", True)


def test_a_gpu_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = device_probe.DeviceAnswer(
        name="NVIDIA H200", architecture="sm_90a", driver="13.0", driver_release="580.159.04", memory_bytes=141 << 30
    )
    monkeypatch.setattr(device_probe, "device", lambda: answer)
    assert finding("GPU").found == "NVIDIA H200, sm_90a, 141 GiB, driver 580.159.04 for CUDA 13.0"
    monkeypatch.setattr(device_probe, "device", lambda: device_probe.DeviceAnswer(fault="the driver sees no GPU"))
    assert finding("GPU").state == "optional"
    assert "the driver sees no GPU" in finding("GPU").found


def test_extras_name_the_command_that_adds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    for check in doctor.EXTRAS:
        found = check()
        assert found.state == "optional"
        assert "pip install 'kernelwright[" in found.fix
