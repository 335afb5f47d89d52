"""Arguments of library steps that are refused by name before a device is touched."""

from __future__ import annotations

import pytest

from kernelwright.languages import library_steps
from kernelwright.languages.device_plan import check_device_plan
from kernelwright.types import (
    Axis,
    Binding,
    Candidate,
    LaunchPlan,
    OptionValue,
    Problem,
    SourceFile,
    Step,
    Target,
    TensorSpec,
    Workload,
    Workspace,
    digest,
    replace,
)

TARGET = Target(kind="cuda", architecture="sm_90a", features=(), threads=1, toolchain=())
WORK = Binding(kind="workspace", name="work", ctype="uint8_t")
FFT: dict[str, OptionValue] = {"kind": "r2c", "sizes": "8x16", "batch": 3, "inverse": False, "scale": 1.0}
CONVOLUTION: dict[str, OptionValue] = {"stride": "2x1", "padding": "1x0", "dilation": "1x2", "groups": 2}


def tensor(
    name: str, shape: tuple[int, ...], dtype: str = "float32", strides: tuple[int, ...] | None = None
) -> TensorSpec:
    role = "output" if name == "out" else "input"
    return TensorSpec(name=name, shape=shape, dtype=dtype, role=role, strides=strides)  # type: ignore[arg-type]


def fault(symbol: str, options: dict[str, OptionValue], *specs: TensorSpec, arguments: tuple[Binding, ...] = ()) -> str:
    """What the plan's check says of one library step over these tensors, the last of them the output."""
    ctypes = {"float32": "float", "float64": "double", "float16": "__half", "int32": "int32_t"}
    bound = tuple(
        Binding(kind="tensor", name=s.name, ctype=("" if s.name == "out" else "const ") + ctypes[s.dtype])
        for s in specs
    )
    problem = Problem(
        name="p", inputs=specs[:-1], parameters=(), outputs=specs[-1:], entry="f", min_bytes=0,
        reference=(SourceFile(path="reference.py", text=""),), workloads=(Workload(name="w", generator="spec"),),
    )  # fmt: skip
    step = Step(symbol=symbol, kind="library", arguments=arguments or (*bound, WORK), options=tuple(options.items()))
    spaces = (Workspace(name="work", size_bytes=4096),)
    made = Candidate(
        problem=digest(problem), language="library", sources=(), plan=LaunchPlan(steps=(step,), workspaces=spaces)
    )
    found = check_device_plan(problem, made, TARGET)
    assert found is None or (found.stage, found.kind) == ("plan", "plan")
    return found.message if found else ""


def ffts(**changed: OptionValue) -> str:
    return fault("fft", FFT | changed, tensor("x", (3, 8, 16)), tensor("out", (3, 8, 9, 2)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("kind", "inverse", "given", "made"),
    [
        ("r2c", False, (3, 8, 16), (3, 8, 9, 2)),
        ("c2r", True, (3, 8, 9, 2), (3, 8, 16)),
        ("c2c", False, (3, 8, 16, 2), (3, 8, 16, 2)),
        ("c2c", True, (3, 8, 16, 2), (3, 8, 16, 2)),
    ],
)
def test_ffts_of_every_kind_pass(
    kind: str, inverse: bool, given: tuple[int, ...], made: tuple[int, ...], dtype: str
) -> None:
    options = FFT | {"kind": kind, "inverse": inverse}
    assert fault("fft", options, tensor("x", given, dtype), tensor("out", made, dtype)) == ""


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"kind": "c2d"}, "kind 'c2d' with inverse False"),
        ({"inverse": True}, "r2c is forward"),
        ({"inverse": 0}, "with inverse 0"),
        ({"kind": "c2r"}, "c2r inverse"),
        ({"sizes": "8x16x2x2"}, "1 to 3"),
        ({"sizes": "8x-16"}, "1 to 3"),
        ({"sizes": "0x16"}, "1 to 3"),
        ({"batch": 0}, "batch is 0"),
        ({"batch": True}, "batch is True"),
        ({"scale": float("inf")}, "finite"),
        ({"scale": "1"}, "finite"),
        ({"batch": 4}, "its tensors have (384, 432) numbers"),
        ({"sizes": "16x8"}, "a r2c FFT of 3 x (16, 8) has (384, 480)"),
        ({"planner": 1}, "its options are batch, inverse, kind, scale, sizes"),
    ],
)
def test_wrong_options_of_an_fft_are_named(changed: dict[str, OptionValue], words: str) -> None:
    assert words in ffts(**changed)


def test_an_fft_s_tensors_are_checked() -> None:
    x, out = tensor("x", (3, 8, 16)), tensor("out", (3, 8, 9, 2))
    assert "takes float, double" in fault(
        "fft", FFT, tensor("x", (3, 8, 16), "float16"), tensor("out", (3, 8, 9, 2), "float16")
    )
    assert "all the same" in fault("fft", FFT, tensor("x", (3, 8, 16), "float64"), out)
    assert "not contiguous" in fault("fft", FFT, tensor("x", (3, 8, 16), strides=(1, 3, 24)), out)
    read, written = (Binding(kind="tensor", name=n, ctype="float") for n in ("x", "out"))
    number = Binding(kind="scalar", name="n", ctype="float", scalar=1.0)
    for arguments, words in (
        ((read, written), "takes 3 arguments"),
        ((read, WORK, written), "the last a workspace"),
        ((read, read, WORK), "can be neither const nor inputs"),
        ((written, written, WORK), "memory of their own"),
        ((read, replace(WORK, ctype="float"), WORK), "memory of their own"),
        ((read, written, replace(WORK, ctype="const uint8_t")), "can be neither const"),
        ((number, written, WORK), "tensors and workspaces only"),
    ):
        assert words in fault("fft", FFT, x, out, arguments=arguments), words


def test_sizes_that_vary_are_refused() -> None:
    problem = Problem(
        name="p", inputs=(tensor("x", (3, 16)),), parameters=(), outputs=(tensor("out", (3, 9, 2)),), entry="f",
        min_bytes=0,
        reference=(SourceFile(path="reference.py", text=""),), workloads=(Workload(name="w", generator="spec"),),
        axes=(Axis(name="B", size=3, low=1, high=8, places=(("x", 0), ("out", 0))),),
    )  # fmt: skip
    made = Candidate(problem=digest(problem), language="library", sources=(), plan=LaunchPlan(steps=()))
    step = Step(symbol="fft", kind="library", arguments=(), options=())
    assert "axes that vary" in library_steps.fault(problem, made, step)


def convolutions(
    x: tuple[int, ...] = (2, 4, 9, 11), out: tuple[int, ...] = (2, 6, 5, 7), **changed: OptionValue
) -> str:
    specs = tensor("x", x), tensor("weight", (6, 2, 3, 3)), tensor("out", out)
    return fault("tuned_convolution", CONVOLUTION | changed, *specs)


def test_a_convolution_passes_with_and_without_views() -> None:
    assert convolutions() == ""
    assert convolutions(x=(2, 4, 99), view0="2x4x9x11:396x99x11x1+0") == ""


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"stride": "2"}, "need 2 whole numbers each"),
        ({"stride": "0x1"}, "need 2 whole numbers each"),
        ({"dilation": "1x1"}, "gives (2, 6, 5, 9), not (2, 6, 5, 7)"),
        ({"padding": "axb"}, "need 2 whole numbers each"),
        ({"groups": 4}, "divides 6 channels"),
        ({"groups": True}, "groups is True"),
        ({"groups": 1}, "in 1 groups gives"),
        ({"out": (2, 6, 5, 8)}, "not (2, 6, 5, 8)"),
        ({"x": (2, 4, 99)}, "each needs 4, or each 5"),
        (
            {"view0": "2x4x9x11:396x99x11x1+8"},
            "argument 'x': the view 2x4x9x11:396x99x11x1+8 reaches beyond 792 elements",
        ),
        ({"view0": "2x4x9x10:396x99x11x1+0"}, "not dense"),
        ({"view0": "1x4x9x11:396x99x11x1+3"}, "multiple of 8"),
        ({"view0": "here"}, "is no view"),
        ({"view3": "1:1+0"}, "its options are"),
        ({"transposed": False}, "its options are"),
    ],
)
def test_wrong_convolutions_are_named(changed: dict[str, OptionValue], words: str) -> None:
    assert words in convolutions(**changed)  # type: ignore[arg-type]


def test_a_convolution_s_dtype_is_checked() -> None:
    specs = (
        tensor("x", (2, 4, 9, 11), "float64"),
        tensor("weight", (6, 2, 3, 3), "float64"),
        tensor("out", (2, 6, 5, 7), "float64"),
    )
    assert "it takes float, __half, __nv_bfloat16" in fault("tuned_convolution", CONVOLUTION, *specs)


def test_other_routines_are_left_to_the_call() -> None:
    problem = Problem(
        name="p", inputs=(), parameters=(), outputs=(), entry="f", min_bytes=0,
        reference=(SourceFile(path="reference.py", text=""),), workloads=(Workload(name="w", generator="spec"),),
    )  # fmt: skip
    made = Candidate(problem=digest(problem), language="library", sources=(), plan=LaunchPlan(steps=()))
    assert library_steps.fault(problem, made, Step(symbol="matmul", kind="library", arguments=())) == ""
