from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kernelwright.languages import gate
from kernelwright.languages.hardware import find_compiler
from kernelwright.types import Failure, SourceFile


def check(text: str, *others: SourceFile, path: str = "kernel.cpp") -> Failure | None:
    return gate.check_sources((SourceFile(path=path, text=text), *others))


@pytest.mark.parametrize(
    ("text", "line", "kind"),
    [
        ("#include <iostream>", 1, "include"),
        ("int a;\n  #  include <thread>", 2, "include"),
        ('#include "/etc/passwd"', 1, "include"),
        ('#include "../secret.h"', 1, "include"),
        ("#include </usr/include/stdio.h>", 1, "include"),
        ("#include <bits/../stdio.h>", 1, "include"),
        ('#include "missing.hpp"', 1, "include"),
        ("#define H <stdio.h>\n#include H", 2, "include"),
        ("%:include <unistd.h>", 1, "include"),
        ("??=include <unistd.h>", 1, "include"),
        ("/* a\n b */ #include <unistd.h>", 2, "include"),
        ("#/**/include/**/<unistd.h>", 1, "include"),
        ("#inc\\\nlude <unistd.h>", 1, "include"),
        ("int a; \\\n\n#include <unistd.h>", 3, "include"),
        ("#if __has_include(</etc/passwd>)\n#endif", 1, "include"),
        ('#embed "/etc/passwd"', 1, "directive"),
        ("#include_next <cmath>", 1, "directive"),
        ("#import <cmath>", 1, "directive"),
        ('#line 1 "/usr/include/math.h"', 1, "directive"),
        ('# 1 "/usr/include/math.h" 1 3', 1, "directive"),
        ('#ident "x"', 1, "directive"),
        ('#pragma GCC pch_preprocess "x.gch"', 1, "directive"),
        ('#pragma GCC dependency "/etc/passwd"', 1, "directive"),
        ("#pragma GCC system_header", 1, "directive"),
        ('const char* s = R"x(\n# 1 "/usr/include/a.h" 1\n)x";', 1, "source"),
        ('const char* s = u8R"x(\\\n# 1 "/usr/include/a.h" 1\n)x";', 1, "source"),
        ('const char* s = R\\\n"(")";', 1, "source"),
        ('#define HASH #\nHASH 1 "/usr/include/math.h" 1 3\n', 1, "directive"),
        ('#define HASH %:\nHASH 1 "/usr/include/math.h" 1 3\n', 1, "directive"),
        ("#define HASH() int\n#define H2 (#)\n", 2, "directive"),
        ("int a; # 1", 1, "directive"),
        ("#define P(a) a\nP(\n#) 1", 3, "directive"),
        ("int a; /*\n*/ # 1", 2, "directive"),
        ("int a;\x00", 1, "source"),
    ],
)
def test_directives_outside_the_list_are_refused_with_their_line(text: str, line: int, kind: str) -> None:
    failure = check("// first\n" + text)
    assert failure is not None
    assert (failure.kind, failure.location) == (kind, f"kernel.cpp:{line + 1}"), failure


@pytest.mark.parametrize(
    "text",
    [
        "# // nothing\n#include <cmath>\n#include <immintrin.h>\n#include<omp.h>\n#include <vector> // why\n",
        '#include "own.hpp"\n#include "omp.h"\n',
        "// #include <iostream>\n/* #include <thread>\n#include <thread> */\n",
        'const char* s = "#include <iostream>";\nconst char* t = "R\\"(#include)";\nchar c = \'"\';\n#undef A\n',
        "long big = 1'000'000; int x = big ? 'a' : '\\'';\n#include <cmath>\n",
        "#define GLUE(a, b) a##b\n#define TEXT(a) \\\n  #a\n#undef GLUE\n",
        "#if defined(__AVX2__) && __has_include(<immintrin.h>)\n#elif 1\n#else\n#endif\n",
        "#pragma once\n#pragma omp parallel for\n#pragma GCC ivdep\n#pragma GCC unroll 8\n#\n",
        "#include <cmath>\r\nint a;\r\n",
    ],
)
def test_honest_text_passes(text: str) -> None:
    assert check(text, SourceFile(path="own.hpp", text="")) is None


@pytest.mark.parametrize(
    "path",
    [
        "/etc/x.cpp",
        "../x.cpp",
        "a/../x.cpp",
        "x.txt",
        ".x.cpp",
        "a//b.cpp",
        "x.cpp\n",
        "-o.cpp",
        "x y.cpp",
        "x.hpp.gch",
    ],
)
def test_paths_are_checked(path: str) -> None:
    failure = check("", path=path)
    assert failure is not None
    assert "file name" in failure.message


def test_two_files_of_one_name_and_too_much_text_are_refused() -> None:
    assert check("", SourceFile(path="kernel.cpp", text="")) is not None
    assert check("/" * (1 << 20) + "//") is not None
    assert gate.check_sources(()) is not None


def preprocess(text: str, folder: Path) -> str:
    (folder / "kernel.cpp").write_text(text)
    command = [find_compiler().path, "-std=c++17", "-E", "-x", "c++", "-"]
    done = subprocess.run(
        command, input='#include "kernel.cpp"\n', capture_output=True, text=True, cwd=folder, check=True
    )
    return done.stdout


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('void f() { asm("syscall"); }', "asm"),
        ('void f() { __asm__ volatile("nop" ::: "memory"); }', "asm"),
        ('#define GLUE(a, b) a##b\nvoid f() { GLUE(as, m)("syscall"); }', "asm"),
        ('#define A __asm\n#define B A\nvoid f() { B("syscall"); }', "asm"),
        ('extern int f() __asm__("system");', "asm"),
        ('asm(".incbin \\"/etc/passwd\\"");', "asm"),
        ('void f() { asm("" "syscall" : : ); }', "asm"),
        ('register int x asm("rax");', "asm"),
        ('__attribute__((section(".init_array"))) int x;', "attribute"),
        ('#define S section\n__attribute__((used, S(".text,\\"ax\\"\\n.incbin \\"x\\"#"))) int x;', "attribute"),
        ("[[gnu::constructor]] void f();", "attribute"),
        ("__attribute__((__constructor__)) void f();", "attribute"),
        ("<:<:gnu::constructor:>:> void f();", "attribute"),
        ('[ /* */ [gnu::section("x")] ] int a;', "attribute"),
        ('extern "C" void g() {}\nvoid f() __attribute__((alias("g")));', "attribute"),
        ('void f() __attribute__((ifunc("g")));', "attribute"),
        ('_Pragma("GCC pch_preprocess \\"x\\"")', "directive"),
    ],
)
def test_macros_hide_nothing(text: str, kind: str, tmp_path: Path) -> None:
    failure = gate.check_preprocessed(preprocess("#include <cmath>\n\n" + text + "\n", tmp_path))
    assert failure is not None
    assert failure.kind == kind
    assert failure.location == f"kernel.cpp:{3 + text.count(chr(10))}"


@pytest.mark.parametrize(
    "text",
    [
        'void f() { asm volatile("" ::: "memory"); __asm__ __volatile__("" : : "r"(1) : "memory"); asm(""); }',
        "__attribute__((always_inline, aligned(64))) inline int f(int x) { return x; }\nint section = 1, alias = 2;",
        'const char* s = "asm"; int assembly;',
        "[[maybe_unused]] static int f(int constructor) { int a[3] = {}; return a[a[constructor]]; }",
        "#include <immintrin.h>\n#include <algorithm>\n#include <omp.h>\n#include <vector>",
    ],
)
def test_honest_preprocessed_text_passes(text: str, tmp_path: Path) -> None:
    assert gate.check_preprocessed(preprocess(text + "\n", tmp_path)) is None


def test_headers_outside_the_list_are_seen_after_preprocessing_too(tmp_path: Path) -> None:
    failure = gate.check_preprocessed(preprocess("#include <unistd.h>\n", tmp_path))
    assert failure is not None
    assert failure.kind == "include"
