"""cuFFT and cuDNN as steps on a real device: captured in a graph, against float64, and through the judge."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path

import pytest
import torch
from tests.gpu.conftest import Judges

from kernelwright import capture, experts
from kernelwright.judge.device import cudnn, library
from kernelwright.types import Binding, Candidate, Judgement, OptionValue, Policy, Step, Target

DEVICE = torch.device("cuda", 0)
Views = dict[str, torch.Tensor]


def step(symbol: str, names: tuple[str, ...], ctype: str, options: dict[str, OptionValue]) -> Step:
    bound = tuple(Binding(kind="tensor", name=name, ctype=ctype) for name in names)
    work = Binding(kind="workspace", name="work", ctype="uint8_t")
    return Step(symbol=symbol, arguments=(*bound, work), kind="library", options=tuple(options.items()))


def replayed(made: Step, views: Views, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """Captures a call on zeros, and returns what a replay makes of inputs that are written afterwards."""
    stream = torch.cuda.Stream(DEVICE)  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        call = library.call_of(made, views)
        call()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            call()
        for name, tensor in inputs.items():
            views[name].copy_(tensor)
        views["out"].fill_(float("nan"))
        views["work"].fill_(0xA5)
        graph.replay()
        stream.synchronize()
    for name, tensor in inputs.items():
        assert torch.equal(views[name].cpu(), tensor), f"{name} was written"
    return views["out"].cpu().double()


def assert_near(found: torch.Tensor, truth: torch.Tensor, tolerance: float) -> None:
    assert bool(found.isfinite().all())
    error = float((found - truth).abs().max() / truth.abs().max())
    assert error < tolerance, f"relative error {error:.2e}"


@pytest.mark.usefixtures("target")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sizes", [(1024,), (1009,), (48, 60), (16, 12, 20)])
@pytest.mark.parametrize(("kind", "inverse"), [("r2c", False), ("c2c", False), ("c2c", True), ("c2r", True)])
def test_an_fft_in_a_graph_is_as_float64_has_it(
    kind: str, inverse: bool, sizes: tuple[int, ...], dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    batch, dims = 3, tuple(range(1, 1 + len(sizes)))
    shape, half = (batch, *sizes), (batch, *sizes[:-1], sizes[-1] // 2 + 1)
    signal = torch.randn(shape, dtype=torch.float64)
    if kind == "r2c":
        given, truth = signal, torch.view_as_real(torch.fft.rfftn(signal, dim=dims))
    elif kind == "c2r":  # of numbers that are half of a real signal's transform, as cuFFT demands
        wide = torch.fft.rfftn(signal, dim=dims)
        assert wide.shape == half
        given, truth = torch.view_as_real(wide), signal
    else:
        wide = torch.randn(shape, dtype=torch.complex128)
        change = torch.fft.ifftn if inverse else torch.fft.fftn
        given, truth = torch.view_as_real(wide), torch.view_as_real(change(wide, dim=dims))
    given = given.to(dtype).contiguous()
    options: dict[str, OptionValue] = {
        "kind": kind, "sizes": "x".join(map(str, sizes)), "batch": batch, "inverse": inverse,
        "scale": 1.0 / prod(sizes) if inverse else 1.0,
    }  # fmt: skip
    views = {
        "x": torch.zeros(given.shape, dtype=dtype, device=DEVICE),
        "out": torch.zeros(truth.shape, dtype=dtype, device=DEVICE),
        "work": torch.zeros(64 << 20, dtype=torch.uint8, device=DEVICE),
    }
    ctype = "float" if dtype == torch.float32 else "double"
    found = replayed(step("fft", ("x", "out"), ctype, options), views, {"x": given})
    assert_near(found, truth, 1e-5 if dtype == torch.float32 else 1e-12)


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[str, str, str, int]]] = {
    "3 x 3": ((8, 32, 28, 28), (64, 32, 3, 3), ("1x1", "1x1", "1x1", 1)),
    "strided": ((4, 16, 30, 30), (32, 16, 5, 3), ("2x2", "2x1", "1x1", 1)),
    "dilated": ((2, 16, 24, 24), (16, 16, 3, 3), ("1x1", "2x2", "2x2", 1)),
    "groups": ((4, 32, 20, 20), (64, 8, 3, 3), ("1x1", "1x1", "1x1", 4)),
    "3-D": ((2, 8, 10, 12, 14), (16, 8, 3, 3, 3), ("1x1x1", "1x1x1", "1x1x1", 1)),
}


def numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("x")))


@pytest.mark.usefixtures("target")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_tuned_convolution_in_a_graph_is_as_float64_has_it(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x_shape, w_shape, (stride, padding, dilation, groups) = CONVOLUTIONS[name]
    x, weight = torch.randn(x_shape).to(dtype), torch.randn(w_shape).to(dtype)
    convolve: Callable[..., torch.Tensor] = (
        torch.nn.functional.conv2d if len(x_shape) == 4 else torch.nn.functional.conv3d
    )
    windows = numbers(stride), numbers(padding), numbers(dilation)
    truth = convolve(x.double(), weight.double(), None, *windows, groups)
    options: dict[str, OptionValue] = {
        "stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
    }  # fmt: skip
    views = {
        "x": torch.zeros(x_shape, dtype=dtype, device=DEVICE),
        "weight": torch.zeros(w_shape, dtype=dtype, device=DEVICE),
        "out": torch.zeros(truth.shape, dtype=dtype, device=DEVICE),
        "work": torch.zeros(64 << 20, dtype=torch.uint8, device=DEVICE),
    }  # fmt: skip
    ctype = {torch.float32: "float", torch.float16: "__half", torch.bfloat16: "__nv_bfloat16"}[dtype]
    found = replayed(
        step("tuned_convolution", ("x", "weight", "out"), ctype, options), views, {"x": x, "weight": weight}
    )
    # TF32 would err by about 1e-3 of the largest element.
    assert_near(found, truth, {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}[dtype])


@pytest.mark.usefixtures("target")
def test_the_heuristic_s_engines_carry_their_notes() -> None:
    """In float32 some are in TF32 and some are not; without the notes, TF32 would pass for float32."""
    found = list(cudnn.on_device(0).engines([(8, 32, 28, 28), (64, 32, 3, 3), (8, 64, 28, 28)], 0, [[1, 1]] * 3))
    exact = list(cudnn.usable(found, room_bytes=64 << 20, exact=True))
    assert 0 < len(exact) < len(found)
    for engine in found:
        cudnn.on_device(0).drop(engine.plan)


PROGRAMS = {
    "cufft": (
        "torch.view_as_real(torch.fft.rfft(x))", "torch.randn(2048, 1024)",
    ),
    "cuda-program": (
        "torch.nn.functional.conv2d(x, w, padding=1)", "torch.randn(16, 64, 56, 56), torch.randn(64, 64, 3, 3)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_library_s_candidate_passes_the_judge(
    judges: Judges, quick: Policy, target: Target, name: str, tmp_path: Path
) -> None:
    body, draws = PROGRAMS[name]
    arguments = "x, w" if "w" in body.split("(")[-1] else "x"
    source = tmp_path / "program.py"
    source.write_text(
        f"import torch\nclass Model(torch.nn.Module):\n    def forward(self, {arguments}):\n        return {body}\n"
        f"def get_inputs():\n    return [{draws}]\ndef get_init_inputs():\n    return []\n"
    )
    captured = capture.load(str(source))
    assert captured.graph is not None, captured.reason
    offered = experts.templates(captured.problem, captured.graph, target=target)
    (template,) = [one for one in offered.templates if one.name == name]
    point = tuple((p.name, "tuned library" if p.name == "products" else p.values[0]) for p in template.space.parameters)
    made = template.emit(point)
    assert isinstance(made, Candidate), made
    assert [s.symbol for s in made.plan.steps] == ["fft" if name == "cufft" else "tuned_convolution"]
    record = next(judges.of(captured.problem).judge([made], quick))
    assert isinstance(record.outcome, Judgement), record.outcome
    assert record.passed, record.outcome.verdict
    assert all(m.median_us > 0 for m in record.outcome.measurements)
