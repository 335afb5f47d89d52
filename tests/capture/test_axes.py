"""Sizes that vary: how files and commands declare them, which output dimensions follow, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from kernelwright import experts
from kernelwright.axes import problem_at, sizes_of
from kernelwright.capture import specs
from kernelwright.errors import SourceError, UserError
from kernelwright.graph import Capture
from kernelwright.languages import candidate_from_file, detect_target, skeleton
from kernelwright.reference_program import load_problem, resized
from kernelwright.types import Axis

HEAD = "import torch\nfrom torch.export import Dim\n"
MODEL = (
    "class Model(torch.nn.Module):\n    def forward(self, x, mask):\n        return {body}\n"
    "def get_inputs():\n    return [torch.randn(8, 16), torch.arange(16) >= torch.randint(1, 17, (1,))]\n"
    "def get_init_inputs():\n    return []\n"
)
BODY = "torch.softmax(x.masked_fill(mask, -1e30), -1), x.sum(0)"
Load = Callable[..., Capture]
Write = Callable[..., Path]


@pytest.mark.parametrize(
    "declared",
    [
        '{"x": {0: ("B", 1, 300), 1: ("N", 1, 400)}, "mask": {0: "N"}}',
        '{"x": {0: Dim("B", min=1, max=300), -1: Dim("N", min=1, max=400)}, "mask": {0: Dim("N", min=1, max=400)}}',
    ],
)
def test_a_file_declares_what_varies(declared: str, load: Load, write: Write) -> None:
    captured = load(write(f"{HEAD}DYNAMIC = {declared}\n{MODEL.format(body=BODY)}"))
    problem = captured.problem
    assert problem.axes == (
        Axis(name="B", size=8, low=1, high=300, places=(("x", 0), ("out0", 0))),
        Axis(name="N", size=16, low=1, high=400, places=(("x", 1), ("mask", 0), ("out0", 1), ("out1", 0))),
    )
    at = problem_at(problem, {"B": 5, "N": 33})
    assert sizes_of(at) == {"B": 5, "N": 33}
    assert [spec.shape for spec in at.arguments] == [(5, 33), (33,), (5, 33), (33,)]
    x, mask = load_problem(at).make_inputs(3)
    assert x.shape == (5, 33)
    assert bool((mask.int().diff() >= 0).all())  # still a padding mask
    with pytest.raises(ValueError, match=r"beyond 1\.\.300"):
        problem_at(problem, {"B": 301})
    assert captured.graph is not None
    offer = experts.templates(problem, captured.graph, target=detect_target())
    assert offer.templates == ()
    assert "B, N may vary" in offer.refusals[0].reason


def test_the_command_line_declares_it_for_functions(load: Load, write: Write) -> None:
    path = write("import torch\ndef scaled(x, y):\n    return x * y.sum()\n")
    options = {"inputs": ("float32[8,4]", "float32[3]"), "dynamic": ("B=x[0]:2..64",)}
    problem = load(f"{path}:scaled", **options).problem
    assert problem.axes == (Axis(name="B", size=8, low=2, high=64, places=(("x", 0), ("out", 0))),)
    assert load_problem(problem_at(problem, {"B": 3})).make_inputs(1)[0].shape == (3, 4)


@pytest.mark.parametrize(
    ("declared", "body", "words"),
    [
        ('{"x": {0: ("B", 1, 300)}}', "torch.cat([x, x])", "dimension 0 of out is 16 for B=8, 14 for 7"),
        ('{"x": {0: ("B", 1, 300)}}', "x.reshape(8, 16)", "does not hold for B=7"),
        ('{"x": {0: ("B", 1, 300)}}', "x.var(0)", "not finite for B=1"),
        ('{"x": {1: ("N", 1, 300)}}', "x + mask", "does not hold for N=15"),
        ('{"x": {0: ("B", 9, 300)}}', "x", "the size 8, which is not in 9..300"),
        ('{"z": {0: ("B", 1, 300)}}', "x", "there is no input 'z'"),
        ('{"x": {5: ("B", 1, 300)}}', "x", "x has no dimension 5"),
        ('{"x": {0: "B"}}', "x", "gives B no range"),
        ('{"x": {0: ("x", 1, 9)}}', "x", "is a tensor's name"),
        ('{"x": 3}', "x", "is no dictionary of dimensions"),
    ],
)
def test_what_cannot_vary_is_refused(declared: str, body: str, words: str, load: Load, write: Write) -> None:
    path = write(f"{HEAD}DYNAMIC = {declared}\n{MODEL.format(body=body)}")
    with pytest.raises(SourceError) as error:
        load(path)
    assert words in str(error.value)


def test_the_grammar_of_the_option() -> None:
    axis = specs.parse_axis("B = x[0], mask[-1] : 1..8192")
    assert axis == Axis(name="B", size=0, low=1, high=8192, places=(("x", 0), ("mask", -1)))
    for text in ("B", "B=x:1..2", "B=x[0]", "B=x[0]:1", "=x[0]:1..2"):
        with pytest.raises(UserError, match="write it like"):
            specs.parse_axis(text)


def test_kernel_files_take_sizes_by_name(load: Load, write: Write, tmp_path: Path) -> None:
    declared = '{"x": {0: ("B", 1, 300), 1: ("N", 1, 400)}, "mask": {0: "N"}}'
    problem = load(write(f"{HEAD}DYNAMIC = {declared}\n{MODEL.format(body=BODY)}")).problem
    kernel = tmp_path / "k.cpp"
    kernel.write_text(skeleton(problem))
    (step,) = candidate_from_file(problem, kernel).plan.steps
    assert [(b.kind, b.name, b.ctype) for b in step.arguments[-2:]] == [
        ("axis", "B", "int64_t"),
        ("axis", "N", "int64_t"),
    ]
    kernel.write_text(
        '// kernelwright-plan: {"steps": [{"call": "k", "arguments": ["x", "mask", "out0", "out1", "s",\n'
        '//   {"name": "B", "type": "int32_t"}, "N"]}], "workspaces": {"s": {"type": "float", "count": "B * 2"}}}\n'
    )
    plan = candidate_from_file(problem, kernel).plan
    assert [(b.kind, b.ctype) for b in plan.steps[0].arguments[-2:]] == [("axis", "int32_t"), ("axis", "int64_t")]
    assert plan.workspaces[0].size_bytes == "(B * 2) * 4"
    for wrong, words in (("B - 300", "asks for -"), ("Q * 2", "names the axis 'Q'")):
        kernel.write_text(kernel.read_text().replace("B * 2", wrong))
        with pytest.raises(UserError, match=words):
            candidate_from_file(problem, kernel)
        kernel.write_text(kernel.read_text().replace(wrong, "B * 2"))
    kernel.write_text('extern "C" void k(const float* x, const bool* mask, float* out0, float* out1, int M) {}\n')
    with pytest.raises(UserError, match="sizes that vary are B, N"):
        candidate_from_file(problem, kernel)


def test_free_numbers_are_not_repeated_side_by_side() -> None:
    x = torch.arange(16.0).repeat(4, 1) + torch.rand(4, 16)
    wider = resized(x, (4, 160), torch.Generator().manual_seed(1))
    assert float((wider.diff(dim=-1) == 0).float().mean()) < 0.2
