"""How near right gradient kernels come to what the judge allows: layer norm and softmax, forward and backward.

    python benchmarks/gradient_bounds.py [FAMILY [SECRETS [ROWS COLUMNS]]]

Three ways of summing and three forms of the layer norm's backward formula, all in float32, are held against the
bounds of three draws for each secret. Prints the largest share of a bound for each output, and whatever fails.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch

from kernelwright.capture import gradients
from kernelwright.judge.draws import Draws
from kernelwright.types import Problem, SourceFile, TensorSpec, Workload, replace

Sum = Callable[[torch.Tensor], torch.Tensor]
TEXT = """\
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm({columns})
    def forward(self, x):
        return torch.softmax(self.norm(x), -1)
def get_inputs():
    return [torch.randn({rows}, {columns})]
def get_init_inputs():
    return []
"""
SUMS: dict[str, Sum] = {
    "one after the other": lambda t: t.cumsum(-1)[..., -1:],
    "in eight lanes": lambda t: t.reshape(*t.shape[:-1], -1, 8).cumsum(-2)[..., -1, :].cumsum(-1)[..., -1:],
    "as torch": lambda t: t.sum(-1, keepdim=True),
}
DRAWS = 3


def make_problem(rows: int, columns: int) -> Problem:
    """Returns softmax of a layer norm, with its gradients."""
    x = TensorSpec(name="x", shape=(rows, columns), dtype="float32", role="input")
    state = [
        TensorSpec(name=f"norm_{n}", shape=(columns,), dtype="float32", role="parameter") for n in ("weight", "bias")
    ]
    problem = Problem(
        name="norm_and_softmax", inputs=(x,), parameters=tuple(state), outputs=(replace(x, name="out", role="output"),),
        reference=(SourceFile(path="norm_softmax.py", text=TEXT.format(rows=rows, columns=columns)),), entry="Model",
        workloads=(Workload(name="given", generator="source"),), min_bytes=8 * rows * columns, gradients=("*",),
    )  # fmt: skip
    return gradients.complete(problem, ["x"])


def kernel(
    inputs: tuple[torch.Tensor, ...], parameters: tuple[torch.Tensor, ...], total: Sum, form: int
) -> tuple[torch.Tensor, ...]:
    """Returns both passes as a kernel computes them: [rows, columns], the same, [columns], [columns]."""
    (x, grad), (weight, bias), n = inputs, parameters, inputs[0].shape[-1]
    mean = total(x) / n
    centred = x - mean
    scale = 1 / torch.sqrt(total(centred**2) / n + 1e-5)
    normal = centred * scale
    y = normal * weight + bias
    e = torch.exp(y - y.amax(-1, keepdim=True))
    p = e / total(e)
    back = p * (grad - total(p * grad))
    g = back * weight
    if form == 0:
        grad_x = scale * (g - total(g) / n - normal * (total(g * normal) / n))
    elif form == 1:
        grad_x = (scale / n) * (n * g - total(g) - normal * total(g * normal))
    else:
        grad_x = scale * g - scale * total(g) / n - scale**3 * centred * total(g * centred) / n
    return p, grad_x, (back * normal).cumsum(0)[-1], back.cumsum(0)[-1]


def main(words: list[str]) -> int:
    """Returns 1 where something failed, a closer look included."""
    family, secrets, rows, columns = [*words, *("heavy", "40", "32", "64")[len(words) :]]
    return look(family, int(secrets), int(rows), int(columns))


def look(family: str, secrets: int, rows: int, columns: int) -> int:
    """Returns 1 where something failed."""
    torch.set_num_threads(1)
    problem = make_problem(rows, columns)
    worst, failed = dict.fromkeys((spec.name for spec in problem.outputs), 0.0), 0
    for secret in range(secrets):
        draws = Draws(problem, secret, 0.0)
        for number in range(DRAWS):
            draw = draws.draw(family, number)
            if draw is None:
                raise SystemExit(f"family {family} does not apply")
            for name, total in SUMS.items():
                for form in range(3):
                    outputs = kernel(draw.inputs, draw.parameters, total, form)
                    for index, (bound, output) in enumerate(zip(draw.bounds, outputs, strict=True)):
                        found = bound.check(output)
                        label = problem.outputs[index].name
                        worst[label] = max(worst[label], found.ratio)
                        if not found.passed and found.doubtful:
                            found = draws.closer_bounds(draw.inputs, draw.parameters)[index].check(output)
                        if not found.passed:
                            failed += 1
                            print(f"secret {secret}, draw {number}, {name}, form {form}: {found.evidence}", flush=True)
    for label, share in worst.items():
        print(f"{label}: at most {share:.2f} of the bound")
    print(f"{failed} failed of {secrets * DRAWS * len(SUMS) * 3} sets of outputs")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
