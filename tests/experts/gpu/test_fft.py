"""FFTs as calls of cuFFT: from the program that was written to the options, against torch; and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.experts.candidates import Traced
from tests.judge.device.test_cufft import Binding4Tests

from kernelwright import experts
from kernelwright.capture.tracing import Untraceable
from kernelwright.experts.gpu import fft
from kernelwright.judge.device import cufft, library
from kernelwright.languages.device_plan import check_device_plan
from kernelwright.types import Candidate, Refusal, Target, Template

TARGET = Target(kind="cuda", architecture="sm_90a", features=(), threads=1, toolchain=())
Function = Callable[[torch.Tensor], torch.Tensor]
real, pairs = torch.view_as_real, torch.view_as_complex
ONES: tuple[tuple[Function, tuple[int, ...]], ...] = (
    (lambda x: real(torch.fft.rfft(x)), (3, 4, 16)),
    (lambda x: real(torch.fft.rfft(x, norm="forward")), (16,)),
    (lambda x: real(torch.fft.rfft2(x, norm="ortho")), (3, 6, 14)),
    (lambda x: real(torch.fft.rfftn(x)), (4, 5, 6)),
    (lambda x: real(torch.fft.fft(pairs(x))), (3, 11, 2)),
    (lambda x: real(torch.fft.fft2(pairs(x), dim=(2, 1))), (3, 4, 8, 2)),
    (lambda x: real(torch.fft.ifftn(pairs(x), dim=(-3, -2, -1))), (2, 4, 5, 6, 2)),
    (lambda x: torch.fft.irfft(pairs(x)), (3, 9, 2)),
    (lambda x: torch.fft.irfft2(pairs(x), s=(8, 15), norm="forward"), (3, 8, 8, 2)),
    (lambda x: torch.fft.irfftn(pairs(x), dim=(1, 2, 3)), (2, 4, 6, 5, 2)),
)


def offered(case: Traced) -> Candidate:
    """The library's candidate, as `kernelwright problems` and runs are offered it."""
    (template,) = [t for t in experts.templates(case.problem, case.graph, target=TARGET).templates if t.name == "cufft"]
    made = template.emit(template.space.default())
    assert isinstance(made, Candidate)
    assert check_device_plan(case.problem, made, TARGET) is None
    return made


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("number", range(len(ONES)))
def test_one_transform_is_one_call(number: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    binding = Binding4Tests()
    monkeypatch.setattr(cufft, "binding", lambda: binding)
    monkeypatch.setattr(cufft, "_plans", {})
    function, shape = ONES[number]
    torch.manual_seed(number)
    case = Traced(function, torch.randn(shape, dtype=dtype))
    made = offered(case)
    assert (made.language, len(made.plan.steps)) == ("library", 1)
    (truth,) = case.truth()
    (space,) = made.plan.workspaces
    views = {"x0": case.inputs[0], "out": torch.full(truth.shape, float("nan"), dtype=dtype)}
    views["work"] = torch.zeros(int(space.size_bytes), dtype=torch.uint8)
    library.call_of(made.plan.steps[0], views)()
    torch.testing.assert_close(views["out"].double(), truth, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("function", "shape", "words"),
    [
        (lambda x: real(torch.fft.rfft(x, dim=1)), (3, 16, 4), "over dimensions"),
        (lambda x: real(torch.fft.rfftn(x)), (2, 3, 4, 5), "over dimensions"),
        (lambda x: real(torch.fft.rfft2(x, dim=(2, 1))), (3, 8, 8), "over dimensions"),
        (lambda x: real(torch.fft.fft(x)), (3, 16), "both halves"),
        (lambda x: real(torch.fft.rfft(x * 2.0)), (3, 16), "alone"),
        (lambda x: real(torch.fft.rfft(x)) * 2.0, (3, 16), "alone"),
        (lambda x: torch.fft.irfft(torch.fft.rfft(x)), (3, 16), "alone"),
    ],
)  # fmt: skip
def test_other_programs_are_refused_by_name(function: Function, shape: tuple[int, ...], words: str) -> None:
    case = Traced(function, torch.randn(shape))
    answer = fft.propose(case.problem, case.graph, TARGET)
    assert isinstance(answer, Refusal)
    assert answer.subject.startswith("aten._fft_")
    assert words in answer.reason


def test_rough_lengths_get_more_room() -> None:
    smooth, rough = (offered(Traced(ONES[0][0], torch.randn(2, n))) for n in (2100, 2102))
    small, large = (int(made.plan.workspaces[0].size_bytes) - fft.LEAST_BYTES for made in (smooth, rough))
    assert small == 4 * 8 * 2 * 2102
    assert large == 16 * 8 * 2 * 2104


def test_graphs_without_an_fft_are_not_its_kind() -> None:
    case = Traced(lambda x: x + 1.0, torch.randn(3))
    assert fft.propose(case.problem, case.graph, TARGET) is None
    assert not isinstance(fft.propose(case.problem, case.graph, TARGET), Template)


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (lambda x: torch.fft.rfft(x).abs(), "aten.abs.default"),
        (lambda x: real(torch.fft.rfft(x) * torch.fft.rfft(x)), "aten.mul.Tensor"),
        (lambda x: real(torch.fft.rfft(x)[:, 1:]), "aten.slice.Tensor"),
    ],
)
def test_other_operators_of_complex_numbers_have_no_graph(function: Function, operator: str) -> None:
    with pytest.raises(Untraceable, match=f"{operator} works on complex numbers"):
        Traced(function, torch.randn(3, 16))


def test_a_graph_has_complex_numbers_as_pairs() -> None:
    case = Traced(ONES[0][0], torch.randn(3, 4, 16))
    (node,) = case.graph.nodes
    (result,) = node.results
    assert result is not None
    assert (result.shape, result.dtype, result.strides) == ((3, 4, 9, 2), "float32", (72, 18, 2, 1))
