"""Problems from a few lines: the body of a forward and what get_inputs returns; shapes are found by running it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from kernelwright.reference_program import NAMES, load_reference
from kernelwright.types import Axis, Problem, Role, SourceFile, TensorSpec, Workload, replace


def problem_of(body: str, inputs: str, *, name: str = "small", parameters: str = "", **dtypes: str) -> Problem:
    """Returns a problem whose arguments are named x, y, z, but the last ones as `dtypes` names them."""
    text = (
        f"import torch\nclass Model(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        {parameters or 'pass'}\n    def forward(self, *arguments):\n        NAMES = arguments\n"
        f"        {body}\ndef get_inputs():\n    return [{inputs}]\ndef get_init_inputs():\n    return []\n"
    )
    count = len(load_reference((SourceFile(path="p.py", text=text),), "Model").make_inputs(0))
    names = ("x", "y", "z")[: count - len(dtypes)] + tuple(dtypes)
    text = text.replace("NAMES", ", ".join(names) + ("," if count == 1 else ""))
    file = SourceFile(path=f"{name}.py", text=text)
    reference = load_reference((file,), "Model")
    module = reference.make_module(0)
    drawn = reference.make_inputs(0)
    with torch.no_grad():
        outputs = reference.call(module, drawn)
    named = [(n.replace(".", "_"), t) for n, t in module.named_parameters()]
    out = ["out"] if len(outputs) == 1 else [f"out{i}" for i in range(len(outputs))]
    return Problem(
        name=name,
        inputs=_specs(list(zip(names, drawn, strict=True)), "input"),
        parameters=_specs(named, "parameter"),
        outputs=_specs(list(zip(out, outputs, strict=True)), "output"),
        reference=(file,),
        entry="Model",
        workloads=(Workload(name="given", generator="source"),),
        min_bytes=4 * sum(t.numel() for t in (*drawn, *outputs)),
    )


def _specs(tensors: Sequence[tuple[str, torch.Tensor]], role: Role) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(name=n, shape=tuple(t.shape), dtype=NAMES[t.dtype], role=role) for n, t in tensors)


def _dynamic() -> Problem:
    problem = problem_of("return torch.softmax(x, -1)", "torch.randn(32, 64)", name="dynamic")
    return replace(
        problem,
        axes=(
            Axis(name="R", size=32, low=1, high=3000, places=(("x", 0), ("out", 0))),
            Axis(name="C", size=64, low=1, high=2000, places=(("x", 1), ("out", 1))),
        ),
    )


FURTHER: dict[str, Callable[[], Problem]] = {
    "lookup": lambda: problem_of(
        "return self.table[i]",
        "torch.randint(0, 500, (64,))",
        name="lookup",
        parameters="self.table = torch.nn.Parameter(torch.randn(500, 32))",
        i="int64",
    ),
    "masked": lambda: problem_of(
        "return torch.softmax(x.masked_fill(mask, -1e30), -1)",
        "torch.randn(64, 128), torch.rand(64, 128) < 0.3",
        name="masked",
        mask="bool",
    ),
    "rowsum": lambda: problem_of("return x.sum(-1)", "torch.randn(64, 256)", name="rowsum"),
    "dynamic": _dynamic,
}
"""Problems of kernel files whose inputs are indices or masks, or whose sizes vary."""
