"""Every operator plants its bug where it can, in C++, CUDA and Python; nothing else changes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.errors import UserError
from kernelwright.mutation import LANGUAGES, OPERATORS, language_of, mutants
from kernelwright.selftest.kernel_files import CORPUS
from kernelwright.types import SourceFile

KERNELS = sorted((CORPUS / "mutants" / "kernels").iterdir())


def planted(text: str, operator: str, language: str = "cpp") -> list[str]:
    """Returns what a text becomes, one for each mutant of an operator."""
    source = SourceFile(path="kernel.cpp", text=text)
    return [m.source.text for m in mutants(source, language, operators=(operator,))]


CLIKE = [
    ("dropped-tail", "for (int i = 0; i < n; ++i) f(i);", "for (int i = 0; i < n - 1; ++i) f(i);"),
    ("dropped-tail", "for (; i < n; ++i) f(i);", "for (; false; ++i) f(i);"),
    ("early-exit", "for (int i = 0; i < n + 1; ++i) f(i);", "for (int i = 0; i < (n + 1) / 2; ++i) f(i);"),
    ("aligned-only", "int g = (n + 15) / 16 * (n + b - 1) / b;", "int g = (n + 15) / 16 * (n) / b;"),
    ("aligned-only", "for (int i = 0; i < n; i += 8) f(i);", "for (int i = 0; i < n / 8 * 8; i += 8) f(i);"),
    ("off-by-one", "while (i <= n) ++i;", "while (i < n) ++i;"),
    ("off-by-one", "for (int i = 0; i != n; ++i) f(i);", "for (int i = 0 + 1; i != n; ++i) f(i);"),
    ("flipped-comparison", "if (a > m) m = a;", "if (a < m) m = a;"),
    ("flipped-comparison", "if (p && q) f();", "if (p || q) f();"),
    ("swapped-arms", "x = p ? a : b[1];", "x = p ? b[1] : a;"),
    ("unmasked-access", "if (i < n) out[i] = 1;", "if (true) out[i] = 1;"),
    ("unmasked-access", "v = i < n ? a[i] : 0;", "v = true ? a[i] : 0;"),
    ("unmasked-access", "if (i < n && j < m) f();", "if (true && j < m) f();"),
    ("wrong-index", "y = a[i];", "y = a[i + 1];"),
    ("wrong-broadcast", "y = a[i / n];", "y = a[i % n];"),
    ("wrong-broadcast", "for (int r = 0; r < n; ++r) for (int c = 0; c < m; ++c) y += w[c];",
     "for (int r = 0; r < n; ++r) for (int c = 0; c < m; ++c) y += w[r];"),
    ("wrong-stride", "y = a[r * n + c];", "y = a[r * (n - 1) + c];"),
    ("wrong-stride", "y = a[r * n + c];", "y = a[r + c];"),
    ("int-overflow", "int64_t i = r * n;", "int i = r * n;"),
    ("int-overflow", "y = x[(int64_t)i * n];", "y = x[(int)i * n];"),
    ("int-overflow", "for (size_t i = 0; i < n; ++i) f(i);", "for (int i = 0; i < n; ++i) f(i);"),
    ("lost-sign-bit", "int8_t q = p[i];", "uint8_t q = p[i];"),
    ("stale-storage", "for (int i = 0; i < n; ++i) { float t[4] = {}; f(t); }",
     "for (int i = 0; i < n; ++i) { static thread_local float t[4] = {}; f(t); }"),
    ("stale-storage", "y = buffer[stage ^ 1];", "y = buffer[stage ];"),
    ("stale-storage", "y = buffer[(k + 1) % 2];", "y = buffer[k % 2];"),
    ("missing-barrier", "f(); __syncthreads(); g();", "f(); ; g();"),
    ("missing-barrier", "f(); block.sync(); g();", "f(); ; g();"),
    ("missing-barrier", 'f(); asm volatile("bar.sync 1, 64;" ::: "memory"); g();', "f(); ; g();"),
    ("missing-barrier", 'asm volatile("cp.async.wait_group 0;");', ";"),
    ("missing-barrier", "f();\n#pragma omp barrier\ng();", "f();\n\ng();"),
    ("race", "atomicAdd(&sums[b], x[i]);", "sums[b] += x[i];"),
    ("race", "atomicMax(p, v);", "if ((v) > *(p)) *(p) = v;"),
    ("race", "#pragma omp atomic\ns += v;", "\ns += v;"),
    ("race", "#pragma omp parallel for reduction(+ : s)\nf();", "#pragma omp parallel for\nf();"),
    ("wrong-reduction", "v += __shfl_down_sync(0xffffffffu, v, o);", "v += __shfl_up_sync(0xffffffffu, v, o);"),
    ("wrong-reduction", "v += __shfl_down_sync(0xffffffffu, v, o);", "v += __shfl_down_sync(0x0000ffffu, v, o);"),
    ("wrong-reduction", "for (int o = 16; o > 0; o >>= 1) f(o);", "for (int o = 16; o > 1; o >>= 1) f(o);"),
    ("accumulator-precision", "double s = 0;", "float s = 0;"),
    ("accumulator-precision", "float s = 0; s += a[i];", "float s = 0; s = (float)(_Float16)(s + (a[i]));"),
    ("uninitialised", "float s = 0.0f; s += a;", "float s = 3.5e-2f; s += a;"),
    ("wrong-identity", "float m = -INFINITY;", "float m = 0.0f;"),
    ("wrong-identity", "float m = std::numeric_limits<float>::lowest();", "float m = 0.0f;"),
    ("skipped-max", "y = expf(a[i] - m) / s;", "y = expf(a[i]) / s;"),
    ("swapped-operands", "y = a[i] - m * 2;", "y = m * 2 - (a[i]);"),
    ("swapped-operands", "y = a / b;", "y = b / (a);"),
    ("wrong-operation", "y = a * b;", "y = a + b;"),
    ("lost-accumulation", "s += a;", "s = a;"),
    ("wrong-constant", "y = v + 1e-5f;", "y = v + 0.001f;"),
    ("wrong-constant", "y = s / count;", "y = s / (count - 1);"),
    ("lost-sign", "y = -x;", "y = x;"),
    ("lost-sign", "y = fabsf(x);", "y = (x);"),
    ("min-max-swapped", "m = fmaxf(m, v);", "m = fminf(m, v);"),
    ("nan-blind", "if (std::isnan(v)) m = v;", "if (false) m = v;"),
    ("nan-blind", "if (!(v <= m)) m = v;", "if ((v > m)) m = v;"),
    ("nan-blind", "if (v != v) m = v;", "if (false) m = v;"),
    ("dropped-write", "out[i] = s;", ";"),
    ("dropped-write", "*out = s;", ";"),
    ("deleted-statement", "m = a;", ";"),
    ("deleted-statement", "memset(p, 0, n);", ";"),
]  # fmt: skip
PYTHON = [
    ("dropped-tail", "for k in range(0, K, B): f(k)", "for k in range(0, (K) - B, B): f(k)"),
    ("early-exit", "for k in range(n): f(k)", "for k in range((n) // 2): f(k)"),
    ("aligned-only", "for k in range(tl.cdiv(K, B)): f(k)", "for k in range(((K) // (B))): f(k)"),
    ("aligned-only", "g = (n + b - 1) // b", "g = (n) // b"),
    ("off-by-one", "mask = i < n", "mask = i <= n"),
    ("flipped-comparison", "mask = i < n", "mask = i >= n"),
    ("swapped-arms", "y = tl.where(c, a, b)", "y = tl.where(c, b, a)"),
    ("unmasked-access", "v = tl.load(p + i, mask=m, other=0.0)", "v = tl.load(p + i)"),
    ("unmasked-access", "v = tl.load(p + i, mask=m, other=0.0)", "v = tl.load(p + i, mask=m)"),
    ("unmasked-access", "tl.store(p, v, mask=m)", "tl.store(p, v)"),
    ("wrong-broadcast", "y = w[None, :] * x", "y = w[:, None] * x"),
    ("wrong-broadcast", "s = tl.sum(x, axis=0)", "s = tl.sum(x, axis=1)"),
    ("wrong-stride", "p = x + r * stride_r", "p = x + r * (stride_r - 1)"),
    ("int-overflow", "i = tl.program_id(0).to(tl.int64) * B", "i = tl.program_id(0) * B"),
    ("missing-barrier", "tl.debug_barrier()", "pass"),
    ("race", "tl.atomic_add(p, v, mask=m)", "tl.store(p, tl.load(p, mask=m) + (v), mask=m)"),
    ("wrong-reduction", "y = tl.cumsum(x, 0)", "y = tl.cumsum(x, 0, reverse=True)"),
    ("wrong-reduction", "y = tl.dot(a, tl.trans(b))", "y = tl.dot(a, b)"),
    ("accumulator-precision", "s = tl.zeros((B,), dtype=tl.float32)", "s = tl.zeros((B,), dtype=tl.float16)"),
    ("accumulator-precision", "x = tl.load(p).to(tl.float32)", "x = tl.load(p)"),
    ("accumulator-precision", 's += tl.dot(a, b, input_precision="ieee")', "s += tl.dot(a, b)"),
    ("uninitialised", "s = tl.zeros((B,), tl.float32)", "s = (tl.zeros((B,), tl.float32) + 0.035)"),
    ("wrong-identity", 'v = tl.load(p, mask=m, other=-float("inf"))', "v = tl.load(p, mask=m, other=0.0)"),
    ("skipped-max", "e = tl.exp(x - m)", "e = tl.exp(x)"),
    ("swapped-operands", "y = x - m", "y = ((m) - (x))"),
    ("wrong-operation", "y = a * b", "y = a + b"),
    ("lost-accumulation", "s += v", "s = v"),
    ("wrong-constant", "y = v + 1e-5", "y = v + 0.001"),
    ("lost-sign", "y = -x", "y = x"),
    ("lost-sign", "y = tl.abs(x)", "y = (x)"),
    ("min-max-swapped", "m = tl.max(x, axis=0)", "m = tl.min(x, axis=0)"),
    ("nan-blind", "m = tl.maximum(a, b, propagate_nan=N)", "m = tl.maximum(a, b)"),
    ("dropped-write", "tl.store(p, v)", "pass"),
    ("deleted-statement", "s += v", "pass"),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "before", "after"), CLIKE)
def test_clike_operators(operator: str, before: str, after: str) -> None:
    assert after in planted(before, operator)


@pytest.mark.parametrize(("operator", "before", "after"), PYTHON)
def test_python_operators(operator: str, before: str, after: str) -> None:
    text = f'import triton\n\n@triton.jit\ndef kernel(p, x):\n    """A doc."""\n    {before}\n'
    assert text.replace(before, after) in planted(text, operator, "triton")


def test_every_operator_is_shown_above() -> None:
    assert {o.name for o in OPERATORS if o.clike} == {operator for operator, _, _ in CLIKE}
    assert {o.name for o in OPERATORS if o.python} == {operator for operator, _, _ in PYTHON}


def test_cuda_sums_are_rounded_without_a_header() -> None:
    text = 'extern "C" __global__ void k(float* x) { float s = 0; s += x[0]; x[1] = s; }'
    (changed,) = planted(text, "accumulator-precision", "cuda")
    assert "s = __uint_as_float(__float_as_uint(s + (x[0])) & 0xffffe000u);" in changed


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: p.name)
def test_mutants_of_real_kernels(path: object) -> None:
    source = SourceFile(path=path.name, text=path.read_text())  # type: ignore[attr-defined]
    found = mutants(source, language_of(source.path))
    assert len(found) >= 10
    lines = source.text.splitlines()
    for mutant in found:
        changed = mutant.source.text.splitlines()
        assert changed != lines
        assert changed[: mutant.line - 1] == lines[: mutant.line - 1]
        assert mutant.diff(source).count("\n-") <= len(mutant.before) // 10 + 3
    assert len({m.source.text for m in found}) == len(found)
    assert found == mutants(source, language_of(source.path))


def test_a_limit_keeps_rare_operators_and_depends_on_the_seed_alone() -> None:
    path = next(p for p in KERNELS if p.name == "softmax.cu")
    source = SourceFile(path=path.name, text=path.read_text())
    every = mutants(source, "cuda")
    names = {m.operator for m in every}
    few = mutants(source, "cuda", limit=len(names), seed=3)
    assert len(few) == len(names)
    assert {m.operator for m in few} == names
    assert set(few) <= set(every)
    assert few == mutants(source, "cuda", limit=len(names), seed=3)
    assert few != mutants(source, "cuda", limit=len(names), seed=4)


def test_nothing_inside_comments_strings_and_preprocessor_lines_changes() -> None:
    text = '// i < n\n#define F(i) (i < n)\n#include "a-b.h"\nauto s = "a - b < c"; /* x += y; */\n'
    assert mutants(SourceFile(path="a.cpp", text=text), "cpp") == ()


def test_only_device_functions_of_python_files_change() -> None:
    text = "@triton.jit\ndef kernel(x):\n    y = x + 1\n\ndef launch(n):\n    return n + 1\n"
    found = mutants(SourceFile(path="a.py", text=text), "triton")
    assert found
    assert {m.line for m in found} == {3}


@pytest.mark.parametrize(
    ("comment", "reason"),
    [
        ("// kw: equivalent off-by-one: ties do not matter", "ties do not matter"),
        ("// kw: equivalent off-by-one", "said so in the source"),
        ("// kw: equivalent early-exit, off-by-one: both", "both"),
        ("/* kw: equivalent *: anything */", "anything"),
        ("// kw: equivalent early-exit: not this one", ""),
        ("// nothing", ""),
    ],
)
def test_a_comment_says_that_a_change_makes_no_difference(comment: str, reason: str) -> None:
    text = f"void f() {{\n  if (a > m) m = a;  {comment}\n}}\n"
    (mutant,) = mutants(SourceFile(path="a.cpp", text=text), "cpp", operators=("off-by-one",))
    assert mutant.equivalent == reason


def test_python_layout_and_unicode_survive() -> None:
    text = '@triton.jit\ndef kernel(x):\n    y = "größer"; z = x - 1  # größer\n    return z\n'
    (mutant,) = mutants(SourceFile(path="a.py", text=text), "triton", operators=("swapped-operands",))
    assert mutant.source.text == text.replace("x - 1", "((1) - (x))")
    assert (mutant.line, mutant.column) == (3, 23)


def test_layout_alone_makes_no_mutant() -> None:
    assert planted("x = (a);", "lost-sign") == []
    assert len(planted("for (int i = 0; i < n; ++i) f();", "dropped-tail")) == 1


@pytest.mark.parametrize(
    ("language", "operators", "words"),
    [("fortran", (), "no language 'fortran'"), ("cpp", ("typo",), "no operator 'typo'")],
)
def test_unknown_names_are_the_users_fault(language: str, operators: tuple[str, ...], words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        mutants(SourceFile(path="a.cpp", text="int a;"), language, operators=operators)
    assert caught.value.fix


def test_a_python_file_that_cannot_be_parsed_is_named_with_its_line() -> None:
    with pytest.raises(UserError, match=r"a\.py:2: no Python"):
        mutants(SourceFile(path="a.py", text="x = 1\ndef f(:\n"), "triton")


@pytest.mark.parametrize(("name", "language"), [("a.cu", "cuda"), ("b.c.cpp", "cpp"), ("k.py", "triton")])
def test_languages_follow_from_names(name: str, language: str) -> None:
    assert language_of(name) == language
    assert language in LANGUAGES


def test_a_name_that_says_no_language_is_refused() -> None:
    with pytest.raises(UserError, match="can be mutated"):
        language_of("kernel.rs")


PIECES = st.sampled_from(
    [
        "for (int i = 0; i < n; ++i) ", "x[i] ", "= ", "+= ", "{ ", "} ", "( ", ") ", "; ", "a ", "- ", "? ", ": ",
        "if (", "[", "]", "float ", "double s = 0 ", ", ", "* ", "/ ", "exp(a - m)", '"', "'",
        "\n#pragma omp atomic\n", "// ", "\n", "< ",
    ]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=40))
def test_any_text_is_mutated_without_fault(pieces: list[str]) -> None:
    text = "".join(pieces)
    for mutant in mutants(SourceFile(path="a.cpp", text=text), "cpp"):
        assert mutant.source.text != text
