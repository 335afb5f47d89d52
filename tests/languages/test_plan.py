# ruff: noqa: E501
from __future__ import annotations

import math

import pytest

from kernelwright.languages import entry
from kernelwright.languages.plan import check_plan, is_identifier
from kernelwright.testing.languages import scale_candidate, scale_problem
from kernelwright.types import Binding, Candidate, LaunchPlan, Step, Workspace, replace

GOOD = scale_candidate("cpp", "")
STEP = GOOD.plan.steps[0]


def with_arguments(*arguments: Binding, workspaces: tuple[Workspace, ...] = ()) -> Candidate:
    return replace(GOOD, plan=LaunchPlan(steps=(replace(STEP, arguments=arguments),), workspaces=workspaces))


def scalar(value: object, ctype: str, name: str = "n") -> Binding:
    return Binding(kind="scalar", name=name, ctype=ctype, scalar=value)  # type: ignore[arg-type]


def space(name: str = "scratch", ctype: str = "float") -> Binding:
    return Binding(kind="workspace", name=name, ctype=ctype)


def test_right_plans_pass() -> None:
    problem = scale_problem()
    assert check_plan(problem, GOOD) is None
    room = Workspace(name="scratch", size_bytes=8)
    assert check_plan(problem, with_arguments(*STEP.arguments, space(ctype="double"), workspaces=(room,))) is None
    read_again = Step(symbol="other", arguments=(replace(STEP.arguments[2], ctype="const float"),))
    assert check_plan(problem, replace(GOOD, plan=LaunchPlan(steps=(STEP, read_again)))) is None


X, WEIGHT, OUT, N = STEP.arguments
ROOM = Workspace(name="scratch", size_bytes=64)


@pytest.mark.parametrize(
    ("candidate", "message"),
    [
        (with_arguments(replace(X, name="y"), OUT), "step 1 'scale': argument 'y' is no tensor of the problem; it has x, weight, out"),
        (with_arguments(replace(X, ctype="double"), OUT), "step 1 'scale': argument 'x' has the C type 'double', but x is float32: float"),
        (with_arguments(X, WEIGHT), "output 'out' is bound by no step, so nothing can write it; bind it as float*"),
        (with_arguments(X, replace(OUT, ctype="const float")), "output 'out' is only bound as const, so nothing can write it; bind it as float*"),
        (with_arguments(X, OUT, space()), "step 1 'scale': argument 'scratch' is no workspace of the plan; it has none"),
        (with_arguments(X, OUT, workspaces=(ROOM,)), "workspace 'scratch' is used by no step; bind it or leave it out"),
        (with_arguments(X, OUT, space(), workspaces=(ROOM, ROOM)), "workspace 'scratch' has the name of another tensor or workspace; choose a new one"),
        (with_arguments(X, OUT, workspaces=(replace(ROOM, name="x"),)), "workspace 'x' has the name of another tensor or workspace; choose a new one"),
        (with_arguments(X, OUT, space(), workspaces=(replace(ROOM, size_bytes=0),)), "workspace 'scratch' asks for 0 bytes; 1 to 17179869184 are possible"),
        (with_arguments(X, OUT, space(ctype="double"), workspaces=(replace(ROOM, size_bytes=4),)), "step 1 'scale': argument 'scratch' is a workspace of 4 bytes, too small for one double"),
        (with_arguments(X, OUT, replace(X, scalar=1)), "step 1 'scale': argument 'x' is a tensor and cannot carry the value 1"),
        (with_arguments(X, OUT, scalar(None, "int64_t")), "step 1 'scale': argument 'n' is a scalar without a value"),
        (with_arguments(X, OUT, scalar(2**31, "int32_t")), "step 1 'scale': argument 'n' is 2147483648, out of range of int32_t (-2147483648 to 2147483647)"),
        (with_arguments(X, OUT, scalar(-1, "uint8_t")), "step 1 'scale': argument 'n' is -1, out of range of uint8_t (0 to 255)"),
        (with_arguments(X, OUT, scalar(1.0, "int64_t")), "step 1 'scale': argument 'n' is 1.0, which is no whole number, but its type is int64_t"),
        (with_arguments(X, OUT, scalar(True, "float")), "step 1 'scale': argument 'n' is True, but its type is float"),
        (with_arguments(X, OUT, scalar(1e39, "float")), "step 1 'scale': argument 'n' is 1e+39, out of range of float"),
        (with_arguments(X, OUT, scalar(2**60 + 1, "double")), f"step 1 'scale': argument 'n' is {2**60 + 1}, which double cannot hold exactly"),
        (with_arguments(X, OUT, scalar(3, "bool")), "step 1 'scale': argument 'n' is 3, but its type is bool"),
        (with_arguments(X, OUT, scalar(3, "char*")), "step 1 'scale': argument 'n' has the C type 'char*'; a scalar can be float, double, bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t"),
        (with_arguments(X, OUT, scalar(3, "int64_t", "n; evil()")), "step 1 'scale': argument 'n; evil()' has a name that is no C identifier"),
        (replace(GOOD, plan=LaunchPlan(steps=())), "the plan has no steps; it needs at least one kernel call"),
        (replace(GOOD, plan=LaunchPlan(steps=(replace(STEP, symbol="f(); g"),))), "step 1 'f(); g': the symbol is no C identifier"),
        (replace(GOOD, plan=LaunchPlan(steps=(STEP, replace(STEP, symbol="while")))), "step 2 'while': the symbol is no C identifier"),
        (replace(GOOD, plan=LaunchPlan(steps=(replace(STEP, symbol="kw_entry"),))), "step 1 'kw_entry': kw_entry is the generated entry's own name; choose another"),
    ],
)  # fmt: skip
def test_faults_are_named_precisely(candidate: Candidate, message: str) -> None:
    failure = check_plan(scale_problem(), candidate)
    assert failure is not None
    assert (failure.stage, failure.kind) == ("plan", "plan")
    assert failure.message == message


def test_dtypes_without_a_c_type_are_refused() -> None:
    problem = scale_problem()
    problem = replace(problem, inputs=(replace(problem.inputs[0], dtype="complex64"),))
    failure = check_plan(problem, GOOD)
    assert failure is not None
    assert "complex64" in failure.message


@pytest.mark.parametrize("name", ["", "1x", "a-b", "a b", "for", "é", "a\n"])
def test_what_is_no_identifier(name: str) -> None:
    assert not is_identifier(name)


@pytest.mark.parametrize(
    ("value", "ctype", "text"),
    [
        (3, "int64_t", "3LL"),
        (-(2**63), "int64_t", "-9223372036854775807LL - 1"),
        (2**64 - 1, "uint64_t", "18446744073709551615ULL"),
        (-7, "int8_t", "static_cast<int8_t>(-7LL)"),
        (0.1, "double", "0x1.999999999999ap-4"),
        (2, "float", "static_cast<float>(0x1.0000000000000p+1)"),
        (-math.inf, "float", "-__builtin_inff()"),
        (math.nan, "double", '__builtin_nan("")'),
        (True, "bool", "true"),
    ],
)
def test_scalars_become_exact_literals(value: object, ctype: str, text: str) -> None:
    assert entry.literal(scalar(value, ctype)) == text


def test_entry_lines_are_found_again() -> None:
    candidate = replace(GOOD, sources=scale_candidate("cpp", "// text").sources)
    candidate = replace(candidate, plan=LaunchPlan(steps=(STEP, Step(symbol="bare", arguments=()), STEP)))
    lines = entry.text(scale_problem(), candidate).split("\n")
    seen = []
    for number, line in enumerate(lines, start=1):
        place = entry.locate(candidate, number)
        if place is None:
            continue
        step, index, argument = place
        if f"::{step.symbol}(" in line:
            seen.append((index, "call"))
        elif argument is not None:
            name = step.arguments[argument].name
            order = ["x", "weight", "out"]
            assert (
                ("kernelwright_exact" in line) if name == "n" else f"kernelwright_buffers[{order.index(name)}]" in line
            )
            seen.append((index, name))
    arguments = ["call", "x", "weight", "out", "n"]
    assert seen == [*((0, a) for a in arguments), (1, "call"), *((2, a) for a in arguments)]
