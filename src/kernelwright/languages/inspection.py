"""What a candidate's shared library may be, looked at before anybody loads it.

**Covers**: what the loader would do: imports from an allow-list, libraries from an allow-list, one
export, no start or end code (.init_array, DT_INIT and their like; libraries are linked without
start files, so an honest one has none), no IFUNC, relocations of known kinds only and none into
code, no search paths or audit entries, no writable code, no executable stack, full RELRO, nothing
but code in executable segments. And what the code itself does: no instruction that enters the
kernel, reads a clock or counter, changes segment bases or protection keys, in any executable
section; no data among the code; no direct jump, call or address into the middle of an instruction.
**Does not cover**: addresses that are computed at run time. A constant such as 0x050f is honest
and its bytes are a system call when entered in the middle; a call through a pointer that was
computed to point there, or into libc past its entry points, is not visible here. The runner that
loads the library is a process of its own and holds nothing but inputs and outputs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile

from kernelwright.languages import disassembly, entry
from kernelwright.types import Failure

LIBRARIES = re.compile(r"lib(c|m|gomp|mvec|omp|omp5|gcc_s|stdc\+\+)\.so(\.\d+)?|ld-linux[\w-]*\.so\.\d")
_MATH = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs fdim floor "
    "fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf nan "
    "nearbyint nextafter nexttoward pow remainder remquo rint round roundeven scalbln scalbn sin sincos sinh sqrt tan "
    "tanh tgamma trunc j0 j1 jn y0 y1 yn"
)
IMPORTS = re.compile(
    rf"(?:{'|'.join(_MATH.split())})[fl]?"
    r"|_ZGV[a-z]\w+"  # vector variants of libmvec
    r"|mem(?:cpy|move|set|cmp)|malloc|calloc|realloc|free|aligned_alloc|posix_memalign|abs|labs|llabs|qsort|bsearch"
    r"|abort|__assert_fail|__stack_chk_fail|__tls_get_addr"
    r"|_Zn[wa]m(?:St11align_val_t)?(?:RKSt9nothrow_t)?|_Zd[la]Pvm?(?:St11align_val_t)?(?:RKSt9nothrow_t)?"
    r"|_ZSt7nothrow|_ZSt\d+__throw_\w+|_ZSt21__glibcxx_assert_fail\w*"
    r"|GOMP_(?:parallel|barrier|critical|atomic|single|loop|sections?|ordered|task|doacross|cancel|reduction|scope|teams)"
    r"[a-z0-9_]*"
    r"|omp_(?:get_(?!wtime|wtick)\w+|in_parallel|(?:init|destroy|set|unset|test)_(?:nest_)?lock)"
    r"|__kmpc_(?!push_target|target)\w+"
    r"|__(?:mul|div)[shdxt]c3|__u?(?:div|mod)(?:mod)?[dt]i[34]|__popcount[dt]i2"
)
"""Functions that compute, hold memory or run OpenMP regions. Nothing that opens, starts, waits or tells the time."""
WHY = (
    (r"(popen|exec\w*|posix_spawn\w*|v?fork|clone\d?|system|dlopen|dlsym|dlmopen|syscall)", "runs other code"),
    (r"(clock\w*|gettimeofday|time|nanosleep|usleep|omp_get_w\w+|ftime)", "reads or waits for the clock"),
    (r"(pthread_\w+|_ZNSt6thread\w*|__gthread\w*|sem_\w+)", "threads other than OpenMP's; use #pragma omp"),
    (r"(m(un)?map|mprotect|mremap|madvise|mlock\w*|sbrk|brk)", "changes the address space"),
    (r"(f?open\d*|openat\d*|f?read|f?write|close|printf|puts|putchar|fputs|v?s?n?printf|_ZSt4cout|_ZNSo\w*|__printf_chk)",
     "input or output"),
    (r"(__cxa_a?t?exit|atexit|__cxa_thread_atexit\w*|on_exit)", "registers code for the end of the process"),
    (r"(__cxa_\w+|_Unwind_\w+|__gxx_personality\w*)", "exceptions or static construction"),
    (r"omp_set_\w+", "changes OpenMP for others; use clauses such as num_threads"),
    (r"(_ZTV\w+|_ZTI\w+|__dynamic_cast)", "run-time type information"),
)  # fmt: skip
_TAGS = (
    "DT_NULL DT_NEEDED DT_SONAME DT_HASH DT_GNU_HASH DT_STRTAB DT_SYMTAB DT_STRSZ DT_SYMENT DT_PLTGOT DT_PLTRELSZ "
    "DT_PLTREL DT_JMPREL DT_RELA DT_RELASZ DT_RELAENT DT_RELACOUNT DT_FLAGS DT_FLAGS_1 DT_VERNEED DT_VERNEEDNUM "
    "DT_VERSYM DT_VERDEF DT_VERDEFNUM DT_RELR DT_RELRSZ DT_RELRENT DT_AARCH64_BTI_PLT DT_AARCH64_PAC_PLT "
    "DT_AARCH64_VARIANT_PCS"
)
TAGS = frozenset(_TAGS.split())
DF_BIND_NOW, DF_STATIC_TLS, DF_1_NOW = 0x8, 0x10, 0x1
RELOCATIONS = {
    # R_X86_64: 64, GLOB_DAT, JUMP_SLOT, RELATIVE, DTPMOD64, DTPOFF64, TPOFF64, TLSDESC
    "EM_X86_64": frozenset((1, 6, 7, 8, 16, 17, 18, 36)),
    # R_AARCH64: ABS64, GLOB_DAT, JUMP_SLOT, RELATIVE, TLS_DTPMOD, TLS_DTPREL, TLS_TPREL, TLSDESC
    "EM_AARCH64": frozenset((257, 1025, 1026, 1027, 1028, 1029, 1030, 1031)),
}
IRELATIVE = {"EM_X86_64": 37, "EM_AARCH64": 1032}
CODE_SECTIONS = frozenset((".text", ".plt", ".plt.got", ".plt.sec", ".iplt"))
START_SECTIONS = re.compile(r"\.(preinit_array|init_array|fini_array|ctors|dtors|init|fini)(\..*)?")
W, X = 2, 1
SHF_ALLOC, SHF_EXECINSTR = 2, 4


class _Refused(Exception):
    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def inspect_library(path: Path) -> Failure | None:
    """Returns why a library may not be loaded, None where it may.

    Raises:
        MissingTool: when objdump is not installed.
    """
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            _check_segments(elf)
            _check_dynamic(elf)
            _check_symbols(elf)
            _check_relocations(elf)
            code = _check_sections(elf)
            targets = _code_addresses(elf, code)
        if found := disassembly.check(path, [name for name, _, _ in code], targets):
            raise _Refused("instruction", found)
    except _Refused as refused:
        return Failure(stage="inspect", kind=refused.kind, message=str(refused))
    except (ELFError, OSError, ValueError, KeyError, AttributeError, IndexError) as error:
        message = f"the library cannot be read as an ELF file: {type(error).__name__}: {error}"
        return Failure(stage="inspect", kind="format", message=message)
    return None


def _check_segments(elf: Any) -> None:
    if elf["e_type"] != "ET_DYN" or elf["e_machine"] not in RELOCATIONS:
        raise _Refused("format", f"no shared library for this machine: {elf['e_type']}, {elf['e_machine']}")
    kinds = [segment["p_type"] for segment in elf.iter_segments()]
    for needed in ("PT_DYNAMIC", "PT_GNU_STACK", "PT_GNU_RELRO"):
        if kinds.count(needed) != 1:
            raise _Refused("segment", f"{kinds.count(needed)} segments of type {needed}; exactly one is needed")
    if "PT_INTERP" in kinds:
        raise _Refused("segment", "the library names a program interpreter")
    for segment in elf.iter_segments():
        if segment["p_type"] == "PT_GNU_STACK" and segment["p_flags"] & X:
            raise _Refused("stack", "the library asks for an executable stack (a nested function's trampoline?)")
        if segment["p_flags"] & W and segment["p_flags"] & X:
            raise _Refused("segment", "a segment is both writable and executable")


def _check_dynamic(elf: Any) -> None:
    segment: Any = next(s for s in elf.iter_segments() if isinstance(s, DynamicSegment))
    flags = flags_1 = 0
    for tag in segment.iter_tags():
        name, needed = str(tag.entry.d_tag), str(getattr(tag, "needed", ""))
        if name == "DT_NEEDED" and not LIBRARIES.fullmatch(needed):
            raise _Refused("library", f"the library needs {needed}, which no kernel does")
        if name in ("DT_INIT", "DT_FINI", "DT_INIT_ARRAY", "DT_FINI_ARRAY", "DT_PREINIT_ARRAY"):
            raise _Refused("constructor", _constructor_message(elf, name))
        if name == "DT_TEXTREL" or (name == "DT_FLAGS" and tag.entry.d_val & 0x4):
            raise _Refused("textrel", "the library has relocations in its code (text relocations)")
        flags = tag.entry.d_val if name == "DT_FLAGS" else flags
        flags_1 = tag.entry.d_val if name == "DT_FLAGS_1" else flags_1
        sizes = ("DT_INIT_ARRAYSZ", "DT_FINI_ARRAYSZ", "DT_PREINIT_ARRAYSZ")
        if name not in TAGS and name not in sizes:
            raise _Refused("dynamic", f"the dynamic entry {name} is not for kernels")
    if flags & ~(DF_BIND_NOW | DF_STATIC_TLS) or flags_1 & ~DF_1_NOW or not (flags & DF_BIND_NOW or flags_1 & DF_1_NOW):
        raise _Refused("dynamic", f"the flags {flags:#x}, {flags_1:#x} are not those of full RELRO")


def _constructor_message(elf: Any, tag: str) -> str:
    table = elf.get_section_by_name(".symtab")
    names = []
    if table is not None:
        pattern = re.compile(
            r"_GLOBAL__(sub_)?[ID]_?\w*|__(static_initialization|cpu_indicator_init)\w*|\w*(ctor|init)\w*"
        )
        names = [
            s.name for s in table.iter_symbols() if s["st_info"]["type"] == "STT_FUNC" and pattern.fullmatch(s.name)
        ]
    hint = f" ({names[0]})" if names else ""
    return (
        f"the library would run code when it is loaded or unloaded ({tag}){hint}; leave out constructors: "
        "static objects with constructors, __attribute__((constructor)), target_clones"
    )


def _check_symbols(elf: Any) -> None:
    dynamic = elf.get_section_by_name(".dynsym")
    for symbol in dynamic.iter_symbols():
        name, info = symbol.name, symbol["st_info"]
        if not name:
            continue
        if info["type"] == "STT_GNU_IFUNC" or str(info["type"]) == "STT_LOOS":
            raise _Refused("ifunc", f"{name!r} is an IFUNC: its resolver would run when the library is loaded")
        if symbol["st_shndx"] != "SHN_UNDEF":
            if name != entry.SYMBOL and info["bind"] != "STB_LOCAL":
                raise _Refused("export", f"the library exports {name!r}; only {entry.SYMBOL} may be visible")
        elif not IMPORTS.fullmatch(name):
            raise _Refused("import", f"the library uses {name!r}, which a kernel may not: {_why(name)}")
    table = elf.get_section_by_name(".symtab")
    for symbol in table.iter_symbols() if table is not None else ():
        if symbol["st_info"]["type"] == "STT_GNU_IFUNC" or str(symbol["st_info"]["type"]) == "STT_LOOS":
            raise _Refused("ifunc", f"{symbol.name!r} is an IFUNC: its resolver would run when the library is loaded")
    if not any(s.name == entry.SYMBOL and s["st_info"]["type"] == "STT_FUNC" for s in dynamic.iter_symbols()):
        raise _Refused("export", f"the library does not export {entry.SYMBOL}")


def _why(name: str) -> str:
    for pattern, reason in WHY:
        if re.fullmatch(pattern, name):
            return reason
    return "it is not on the list of mathematics, memory and OpenMP functions"


def _check_relocations(elf: Any) -> None:
    machine = elf["e_machine"]
    writable = [
        (s["p_vaddr"], s["p_vaddr"] + s["p_memsz"])
        for s in elf.iter_segments()
        if s["p_type"] == "PT_LOAD" and s["p_flags"] & W
    ]
    segment: Any = next(s for s in elf.iter_segments() if isinstance(s, DynamicSegment))
    for kind, table in segment.get_relocation_tables().items():
        for relocation in table.iter_relocations():
            number, offset = relocation["r_info_type"] if kind != "RELR" else None, relocation["r_offset"]
            if number == IRELATIVE[machine]:
                raise _Refused("ifunc", "an IRELATIVE relocation: code would run when the library is loaded (IFUNC)")
            if number is not None and number not in RELOCATIONS[machine]:
                raise _Refused("relocation", f"a relocation of the unexpected type {number} at {offset:#x}")
            if not any(low <= offset and offset + 8 <= high for low, high in writable):
                raise _Refused("textrel", f"a relocation at {offset:#x} changes memory that is not data")


def _check_sections(elf: Any) -> list[tuple[str, int, int]]:
    """Returns (name, first, end) of the code sections, which must fill the executable segments."""
    code = []
    for section in elf.iter_sections():
        if not section["sh_flags"] & SHF_ALLOC:
            continue
        if START_SECTIONS.fullmatch(section.name):
            raise _Refused("constructor", f"the section {section.name} would run code at load or unload")
        if section["sh_flags"] & SHF_EXECINSTR:
            if section.name not in CODE_SECTIONS:
                raise _Refused("section", f"the executable section {section.name!r} was not made by the compiler")
            code.append((section.name, section["sh_addr"], section["sh_addr"] + section["sh_size"]))
    for segment in elf.iter_segments():
        if segment["p_type"] != "PT_LOAD" or not segment["p_flags"] & X:
            continue
        data = segment.data()
        inside = bytearray(data)
        for _, first, end in code:
            low, high = first - segment["p_vaddr"], end - segment["p_vaddr"]
            if 0 <= low <= high <= len(inside):
                inside[low:high] = bytes(high - low)
        if any(inside) and elf["e_machine"] == "EM_X86_64":  # between sections ld pads with zeros
            raise _Refused("segment", "an executable segment holds something other than code")
    _check_data_in_code(elf, code)
    return code


def _check_data_in_code(elf: Any, code: list[tuple[str, int, int]]) -> None:
    table = elf.get_section_by_name(".symtab")
    for symbol in table.iter_symbols() if table is not None else ():
        if symbol["st_info"]["type"] in ("STT_OBJECT", "STT_TLS", "STT_COMMON"):
            address = symbol["st_value"]
            if any(first <= address < end for _, first, end in code) and symbol["st_info"]["type"] != "STT_TLS":
                raise _Refused("section", f"the data {symbol.name!r} lies among the code")


def _code_addresses(elf: Any, code: list[tuple[str, int, int]]) -> list[int]:
    """Addresses in the code that the loader or the export table hands out; each must begin an instruction."""
    found = [s["st_value"] for s in elf.get_section_by_name(".dynsym").iter_symbols() if s.name == entry.SYMBOL]
    segment: Any = next(s for s in elf.iter_segments() if isinstance(s, DynamicSegment))
    for kind, table in segment.get_relocation_tables().items():
        if kind == "RELR":
            continue
        found += [r["r_addend"] for r in table.iter_relocations() if r.is_RELA() and not r["r_info_sym"]]
    return [address for address in found if any(first <= address < end for _, first, end in code)]
