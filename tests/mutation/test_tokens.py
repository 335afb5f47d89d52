"""The tokenizer and what is read from tokens: comments, strings, loops, operands, declarations."""

from __future__ import annotations

import pytest

from kernelwright.mutation.tokens import Code, scan

KERNEL = r"""
#include <cmath>  // a < b
#define LAST(n) ((n) - 1)
/* for (int i = 0; i < n; ++i) */
static const char* text = "x[i] < 1; // not a comment";
static const char* raw = R"(a - b)";
template <int N> __device__ float sum(const float* __restrict__ x);
extern "C" void kernel(const float* x, float* out, int64_t n) {
#pragma omp parallel for
  for (int64_t i = 0, j = 1; i < n; ++i) {
    float s = 0.f, lanes[4] = {}, *p = out;
    s += static_cast<float>(x[i]) - 2 * x[i + 1];
    if (s < 0) out[i] = -s; else p[i] = (float)x[i] / s;
  }
}
"""


@pytest.fixture
def code() -> Code:
    return Code(KERNEL)


def test_every_character_belongs_to_a_token_or_to_nothing(code: Code) -> None:
    end = 0
    for token in code.tokens:
        assert KERNEL[token.start : token.stop] == token.text
        assert end <= token.start
        between = KERNEL[end : token.start]
        assert not between.strip() or between.strip().startswith(("//", "/*")), between
        end = token.stop


def test_comments_strings_and_directives_hold_no_tokens(code: Code) -> None:
    kinds = {token.kind for token in code.tokens}
    assert kinds == {"name", "number", "text", "mark", "pragma", "directive"}
    assert [t.text for t in code.tokens if t.kind == "text"] == [
        '"x[i] < 1; // not a comment"', 'R"(a - b)"', '"C"'
    ]  # fmt: skip
    assert len(code.loops) == 1
    assert [t.text.strip() for t in code.tokens if t.kind == "directive"] == [
        "#include <cmath>",
        "#define LAST(n) ((n) - 1)",
    ]


def test_a_loop_has_three_parts_and_a_body(code: Code) -> None:
    (loop,) = code.loops
    assert code.span(*loop.init) == "int64_t i = 0, j = 1"
    assert code.span(*loop.condition) == "i < n"
    assert code.span(*loop.step) == "++i"
    assert code.span(*loop.body).startswith("{")
    assert code.span(*loop.body).endswith("}")


def test_declarations_know_their_types(code: Code) -> None:
    assert code.types["s"] == "float"
    assert code.types["n"] == "int64_t"
    found = {code.word(d.name): d for d in code.declared}
    assert found["lanes"].array
    assert found["p"].pointer
    assert found["x"].pointer
    init = found["s"].init
    assert init is not None
    assert code.span(*init) == "0.f"


def test_operands_reach_as_far_as_they_bind(code: Code) -> None:
    minus = next(i for i in code.indices("-") if code.is_binary(i) and code.word(i + 1) == "2")
    before, after = code.operand_before(minus), code.operand_after(minus, products=True)
    assert before is not None
    assert after is not None
    assert code.span(minus + 1, after) == "2 * x[i + 1]"
    signs = [i for i in code.indices("-") if not code.is_binary(i)]
    assert [code.span(i, i + 2) for i in signs] == ["-s"]


@pytest.mark.parametrize(
    ("text", "comparisons"),
    [
        ("static_cast<float>(a)", 0),
        ("std::vector<int> v;", 0),
        ("template <typename T> void f();", 0),
        ("a < b", 1),
        ("x = i < n ? a[i] : 0;", 1),
        ("for (int i = 0; i < n; ++i) f(i > 3);", 2),
        ("if (a < b && c > d) e();", 2),
    ],
)
def test_angle_brackets_are_told_from_comparisons(text: str, comparisons: int) -> None:
    code = Code(text)
    assert len([i for i in code.indices("<", ">") if i not in code.angles]) == comparisons


def test_constants_are_worth_what_they_are_declared_as() -> None:
    code = Code("constexpr int n = 173, block = 25, blocks = (n + block - 1) / block; int m = n;")
    assert code.constants == {"n": 173, "block": 25, "blocks": 7}


@pytest.mark.parametrize(
    "text", ["", "'", '"', "/*", 'R"(', "#", "((", "}}", "for (", "for (;;", "a ?", "if", "[", "x[", "asm(", "-"]
)
def test_broken_text_is_read_without_fault(text: str) -> None:
    assert "".join(t.text for t in scan(text)).strip() == "".join(t.text for t in Code(text).tokens).strip()
