from __future__ import annotations

import pytest

from kernelwright.llm.answers import Edit, EditFault, applied, opinion, parsed
from kernelwright.llm.tunables import tunables, with_point

CODE = '#include <cmath>\n\nextern "C" void f(const float* x, float* out) {\n    out[0] = x[0];\n}\n'


def test_a_reply_in_form() -> None:
    answer = parsed(
        f"Intent: go fast\n\nBecause.\n\n```cpp\n{CODE}```\n\nIdeas:\n- one thing\n2. another\n\nBye.\n- no idea"
    )
    assert (answer.intent, answer.code, answer.ideas) == ("go fast", CODE, ("one thing", "another"))
    assert answer.salvaged == ""


@pytest.mark.parametrize(
    "text",
    [
        f"```\n{CODE}```",
        f"```c++ title=kernel.cpp\n{CODE}",
        f"~~~cpp\n{CODE}~~~\n",
        f"Here it is:\n\n{CODE}\nI hope it helps.",
        CODE,
        f"```python\nprint(1)\n```\n```cpp\nextern \"C\" void f() {{}}\n```\nBetter:\n```cpp\n{CODE}```",
        '{"intent": "x", "files": [{"code": ' + __import__("json").dumps(CODE) + "}]}",
        "```cpp\n" + "".join(f"{n:3d} | {line}\n" for n, line in enumerate(CODE.splitlines(), 1)) + "```",
        "```diff\n" + "".join(f"+{line}\n" for line in CODE.splitlines()) + "```",
    ],
)  # fmt: skip
def test_a_kernel_is_saved_from_a_broken_form(text: str) -> None:
    assert parsed(text).code.split() == CODE.split()


@pytest.mark.parametrize(
    "text", ["", "I'm sorry.", f"```cpp\n{CODE[:60]}", "```python\nprint(1)\n```", '{"code": "x"}']
)
def test_what_is_no_kernel_is_not_taken_for_one(text: str) -> None:
    assert parsed(text).code == ""


def test_edits_are_applied_also_where_white_space_differs() -> None:
    text = "Intent: less\n<<<<<<< SEARCH\n  out[0] =  x[0];\n=======\n    out[0] = 2 * x[0];\n>>>>>>> REPLACE\n"
    edits = parsed(text).edits
    assert applied(CODE, edits) == CODE.replace("x[0];", "2 * x[0];")
    with pytest.raises(EditFault, match="not in the file"):
        applied(CODE, (Edit(search="nowhere", replacement=""),))
    with pytest.raises(EditFault, match="2 times"):
        applied(CODE + CODE, (Edit(search="x[0]", replacement="y"),))
    with pytest.raises(EditFault, match="no lines"):
        applied(CODE, (Edit(search=" \n", replacement="y"),))


def test_reviews() -> None:
    assert opinion("Verdict: **faulty**\nline 3 reads beyond x") == (True, "line 3 reads beyond x")
    assert opinion("I looked.\nverdict: fine.") == (False, "")
    assert opinion("who knows") is None


def test_free_parameters() -> None:
    source = (
        "// kernelwright-launch: f grid=8 block={T}\nconstexpr int T = 64;  // kw: tune 32, 64, 128\n"
        "#define U 2  // kw: tune 1, 2\nint V = 3;  // kw: tune many\nint W = 4;  // kw: tune 4\n"
    )
    found = {p.name: p.values for p in tunables(source)}
    assert found == {"T": (64, 32, 128), "U": (2, 1)}
    set_ = with_point(source, (("T", 128), ("U", 1)))
    assert "block=128" in set_
    assert "constexpr int T = 128;  // kw: tune 32, 64, 128" in set_
    assert "#define U 1 " in set_
    assert [p.name for p in tunables("BLOCK = 128  # kw: tune 64, 256\n")] == ["BLOCK"]
