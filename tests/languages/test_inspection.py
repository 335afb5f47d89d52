"""The inspection against libraries that try something, built without the gate, and against honest ones."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

from kernelwright.languages import cpp, disassembly, entry, inspection
from kernelwright.languages.hardware import find_compiler

HEAD = '#include <cstdint>\nextern "C" __attribute__((visibility("default"))) void kw_entry(void* const* b)'
BODY = HEAD + " { static_cast<float*>(b[0])[0] = 1.0f; }\n"
X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="x86 assembler text")

DSO = 'extern "C" __attribute__((visibility("hidden"))) void* __dso_handle = nullptr;\n'
"""What start files would bring; without it nothing with a destructor links."""

CALLS = {
    "system": '#include <cstdlib>\nint f() { return system("true"); }',
    "fork": "#include <unistd.h>\nint f() { return fork(); }",
    "open": '#include <fcntl.h>\nint f() { return open("/etc/passwd", 0); }',
    "dlopen": '#include <dlfcn.h>\nint f() { return dlopen("libc.so.6", 1) != nullptr; }',
    "dlsym": '#include <dlfcn.h>\nint f() { return dlsym(nullptr, "system") != nullptr; }',
    "pthread_create": "#include <pthread.h>\nint f() { pthread_t t; "
    "return pthread_create(&t, nullptr, [](void* p) { return p; }, nullptr); }",
    "clock_gettime": "#include <ctime>\nint f() { timespec t; return clock_gettime(CLOCK_MONOTONIC, &t); }",
    "mprotect": "#include <sys/mman.h>\nint f() { return mprotect(nullptr, 4096, 7); }",
    "syscall": "#include <unistd.h>\nint f() { return syscall(39); }",
    "omp_get_wtime": "#include <omp.h>\nint f() { return omp_get_wtime() > 0; }",
    "omp_set_num_threads": "#include <omp.h>\nint f() { omp_set_num_threads(1); return 0; }",
    "__cxa_atexit": DSO + "#include <cstdlib>\nint f() { return atexit([] {}); }",
    "printf": '#include <cstdio>\nint f() { return printf("%d", 1); }',
    "getenv": '#include <cstdlib>\nint f() { return getenv("HOME") != nullptr; }',
    "dl_iterate_phdr": "#include <link.h>\nint f() { return dl_iterate_phdr(nullptr, nullptr); }",
    "environ": "extern char** environ;\nint f() { return environ != nullptr; }",
}
WEAK = 'extern "C" __attribute__((weak)) int system(const char*); int f() { return system ? system("true") : 0; }'
RENAMED = 'extern "C" int harmless(const char*) __asm__("system"); int f() { return harmless("true"); }'
VERSIONED = (
    'asm(".symver old_realpath, realpath@GLIBC_2.2.5"); extern "C" char* old_realpath(const char*, char*);\n'
    'int f() { return old_realpath("/", nullptr) != nullptr; }'
)

INSTRUCTIONS = (
    "syscall",
    "sysenter",
    "int $0x80",
    "rdtsc",
    "rdtscp",
    "rdpmc",
    "tpause %ecx",
    "umwait %ecx",
    "mwaitx",
    "wrfsbase %rax",
    "in $0x70, %al",
    "lcall *(%rax)",
)

HOSTILE = sorted((Path(__file__).parent / "hostile").glob("*.cpp"))
"""One trick each; the second line says what kind of failure must name it."""
HONEST = sorted((Path(__file__).parent / "honest").glob("*.cpp"))


def build(folder: Path, text: str, *, link: tuple[str, ...] = cpp.LINK_FLAGS, flags: tuple[str, ...] = ()) -> Path:
    """Returns a library made from text as it stands: no gate, the flags of a candidate."""
    library, script = folder / "lib.so", folder / "exports.map"
    script.write_text(cpp.VERSION_SCRIPT)
    compiler = find_compiler()
    flags = (*flags, *cpp.flags_of_machine(compiler))
    command = [compiler.path, *cpp.BASE_FLAGS, "-O2", *flags, "-x", "c++", "-", "-o", str(library), *link]
    done = subprocess.run(command, input=text, text=True, capture_output=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    return library


def with_script(folder: Path) -> tuple[str, ...]:
    return (*cpp.LINK_FLAGS, f"-Wl,--version-script={folder / 'exports.map'}")


@pytest.mark.parametrize("path", HOSTILE, ids=lambda path: path.stem)
def test_tricks_are_refused_by_kind(path: Path, tmp_path: Path) -> None:
    text = path.read_text()
    if platform.machine() != "x86_64" and ("asm(" in text or "avx2" in text or "0xc3050f" in text):
        pytest.skip("written for x86")
    if ".text#" in text and ("clang" in find_compiler().banner or platform.machine() != "x86_64"):
        pytest.skip("this assembler takes the name of the section as it stands")
    kind = text.splitlines()[1].removeprefix("// refused as: ")
    fault = inspection.inspect_library(build(tmp_path, text))
    assert fault is not None, "passed"
    assert (fault.stage, fault.kind) == ("inspect", kind), fault.message


@pytest.mark.parametrize("name", CALLS)
def test_calls_outside_the_list_are_named(name: str, tmp_path: Path) -> None:
    text = CALLS[name] + "\n" + HEAD + " { static_cast<float*>(b[0])[0] = f(); }\n"
    fault = inspection.inspect_library(build(tmp_path, text, link=with_script(tmp_path)))
    assert fault is not None
    assert fault.kind == "import"
    assert f"{name!r}" in fault.message


@pytest.mark.parametrize(("text", "name"), [(WEAK, "system"), (RENAMED, "system"), (VERSIONED, "realpath")])
def test_weak_renamed_and_versioned_imports_are_named(text: str, name: str, tmp_path: Path) -> None:
    text += "\n" + HEAD + " { static_cast<float*>(b[0])[0] = f(); }\n"
    fault = inspection.inspect_library(build(tmp_path, text, link=with_script(tmp_path)))
    assert fault is not None
    assert fault.kind == "import"
    assert f"'{name}'" in fault.message


@X86
@pytest.mark.parametrize("instruction", INSTRUCTIONS)
def test_instructions_that_leave_the_kernel_are_refused(instruction: str, tmp_path: Path) -> None:
    text = HEAD + f' {{ asm volatile("{instruction}"); }}\n'
    fault = inspection.inspect_library(build(tmp_path, text))
    assert fault is not None
    assert fault.kind == "instruction"
    assert instruction.split()[0] in fault.message
    assert entry.SYMBOL in fault.message


@X86
def test_text_relocations_are_refused(tmp_path: Path) -> None:
    text = (
        BODY + 'asm(".text\\n.globl here\\n.hidden here\\n.type here,@function\\nhere: movabs $data, %rax\\nret\\n"\n'
    )
    text += '".data\\ndata: .quad 0\\n.text");\n'
    link = tuple(flag.replace("-z,text,", "-z,notext,") for flag in cpp.LINK_FLAGS)
    fault = inspection.inspect_library(build(tmp_path, text, link=link))
    assert fault is not None
    assert fault.kind == "textrel"


def test_ordinary_start_files_count_as_constructors(tmp_path: Path) -> None:
    link = tuple(flag for flag in cpp.LINK_FLAGS if flag != "-nostartfiles")
    fault = inspection.inspect_library(build(tmp_path, BODY, link=link))
    assert fault is not None
    assert fault.kind == "constructor"


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("-z,noexecstack", "-z,execstack", "stack"),
        ("-z,now", "-z,lazy", "dynamic"),
        ("-z,relro", "-z,norelro", "segment"),
        ("-z,separate-code", "-N", "segment"),
        ("--as-needed", "-rpath,/tmp", "dynamic"),
        ("--as-needed", "--no-as-needed,-ldl,-lrt,-lresolv", "library"),
    ],
)
def test_what_the_linker_can_be_told_is_checked(old: str, new: str, kind: str, tmp_path: Path) -> None:
    if new == "-N" and "clang" in find_compiler().banner:
        pytest.skip("-N wants static libraries, and clang++ has none for OpenMP")
    link = tuple(flag.replace(old, new) for flag in cpp.LINK_FLAGS)
    fault = inspection.inspect_library(build(tmp_path, BODY, link=link))
    assert fault is not None
    assert fault.kind == kind, fault.message


@pytest.mark.parametrize("path", HONEST, ids=lambda path: path.stem)
@pytest.mark.parametrize("opt", ["-O3", "-O1"])
def test_honest_code_passes(path: Path, opt: str, tmp_path: Path) -> None:
    library = build(tmp_path, path.read_text(), link=with_script(tmp_path), flags=(opt,))
    assert inspection.inspect_library(library) is None


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"not a library" * 20])
def test_what_is_no_library_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(content)
    fault = inspection.inspect_library(path)
    assert fault is not None
    assert fault.kind == "format"


def test_a_cut_library_is_refused(tmp_path: Path) -> None:
    library = build(tmp_path, BODY)
    whole = library.read_bytes()
    for part in (64, len(whole) // 3, len(whole) // 2):
        library.write_bytes(whole[:part])
        assert inspection.inspect_library(library) is not None


ARM = """
lib.so:     file format elf64-littleaarch64

Disassembly of section .text:

0000000000010000 <kw_entry>:
   10000:\tldr\tx1, [x0]
   10004:\t{}
   10008:\tb\t10004 <kw_entry+0x4>
   1000c:\tret
"""


@pytest.mark.parametrize(
    ("instruction", "word"),
    [
        ("svc\t#0x0", "enters"),
        ("mrs\tx0, cntvct_el0", "clock"),
        ("msr\ttpidr_el0, x0", "protection"),
        ("hvc\t#0x0", "enters"),
    ],
)
def test_arm_instructions_are_known(instruction: str, word: str) -> None:
    assert word in disassembly.check_text(ARM.format(instruction))


def test_arm_text_without_a_fault_passes() -> None:
    assert disassembly.check_text(ARM.format("mrs\tx0, tpidr_el0")) == ""
    assert disassembly.check_text(ARM.format("fmla\tv0.4s, v1.4s, v2.4s")) == ""
    assert "middle" in disassembly.check_text(ARM.format("bl\t10006 <kw_entry+0x6>"))
