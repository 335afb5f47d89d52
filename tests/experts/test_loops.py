"""Candidates of the loop expert against PyTorch in float64: values, NaN and infinity patterns, guards.

Every case is compiled at its default point, every second one at a random point as well; several share one source.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from kernelwright.codec import dumps, loads
from kernelwright.experts import MOST_NODES, templates
from kernelwright.experts.loops import READERS, buffers_of, nests_of
from kernelwright.graph import Graph
from kernelwright.types import Candidate, Point, Problem, Refusal, Space, Template, replace

from .graphs import TARGET, Traced, build, run_candidate, traced

ROWS, COLUMNS = 37, 1003
GROUP = 10
"""Cases in one source."""


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float32).to(dtype)


def whole(high: int, *shape: int, low: int = 0) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(high))


def rotary(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    half = q.shape[-1] // 2
    return q * cos + torch.cat((-q[..., half:], q[..., :half]), -1) * sin


def residual_norm(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    h = x + y
    return F.layer_norm(h, (h.shape[-1],), w), h


def residual_rms(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    h = x + y
    return h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * w, h


def activations(x: torch.Tensor) -> torch.Tensor:
    soft = F.softplus(x) + F.elu(x) + F.mish(x) + F.logsigmoid(x) + F.selu(x) + F.celu(x) + F.silu(x)
    hard = F.leaky_relu(x) + F.hardswish(x) + F.relu6(x) + F.hardsigmoid(x) + F.hardtanh(x) + F.softsign(x)
    return soft + hard + F.softshrink(x)


def geglu(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    gate, value = (x + b).chunk(2, -1)
    return value * F.gelu(gate)


def swiglu(x: torch.Tensor) -> torch.Tensor:
    gate, value = x.chunk(2, -1)
    return F.silu(gate) * value


def causal(x: torch.Tensor) -> torch.Tensor:
    later = torch.triu(torch.ones(33, 33), 1).bool()
    return F.softmax(x.masked_fill(later, -1e9), -1)


def nucleus(x: torch.Tensor) -> torch.Tensor:
    p = F.softmax(x, -1)
    return torch.where(p.cumsum(-1) < 0.9, p, 0.0)


X, Y, W = normal(ROWS, COLUMNS), normal(ROWS, COLUMNS) + 0.5, normal(COLUMNS)
X = normal(ROWS, COLUMNS).roll(3, 0)
EVEN = normal(9, 256)
TARGETS = whole(COLUMNS, ROWS)
IMAGE = normal(2, 6, 9, 7)

CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "softmax": (lambda x: F.softmax(x, -1), (X,)),
    "softmax_short": (lambda x: F.softmax(x, -1), (normal(301, 7),)),
    "softmax_one": (lambda x: F.softmax(x, -1), (normal(5, 1),)),
    "softmax_middle": (lambda x: F.softmax(x, 1), (normal(4, 9, 65),)),
    "softmax_transposed": (lambda x: F.softmax(x.transpose(0, 1), -1), (X,)),
    "softmax_bf16": (lambda x: F.softmax(x, -1), (X.bfloat16(),)),
    "softmax_float64": (lambda x: F.softmax(x, -1), (X.double(),)),
    "masked_softmax": (lambda x, m: F.softmax(x.masked_fill(~m, float("-inf")) / 8, -1), (X, Y > 0)),
    "log_softmax": (lambda x: F.log_softmax(x, -1), (X,)),
    "cross_entropy": (lambda x, t: F.cross_entropy(x, t), (X, TARGETS)),
    "cross_entropy_smooth": (lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1, reduction="none"), (X, TARGETS)),
    "rms_norm": (torch.nn.RMSNorm(COLUMNS), (X,)),
    "layer_norm": (torch.nn.LayerNorm(COLUMNS), (X,)),
    "layer_norm_half": (lambda x: F.layer_norm(x, (COLUMNS,)), (X.half(),)),
    "residual_layer_norm": (residual_norm, (X, Y, W)),
    "residual_rms_norm": (residual_rms, (X, Y, W)),
    "group_norm": (torch.nn.GroupNorm(2, 6), (IMAGE,)),
    "group_norm_vector": (torch.nn.GroupNorm(4, 64), (normal(3, 64),)),
    "batch_norm": (torch.nn.BatchNorm2d(6), (IMAGE,)),
    "instance_norm": (torch.nn.InstanceNorm2d(6, affine=True), (IMAGE,)),
    "gelu_bias": (lambda x, b: F.gelu(x + b), (X, W)),
    "gelu_tanh": (lambda x, b: F.gelu(x + b, approximate="tanh"), (X, W)),
    "gelu_bf16": (lambda x: F.gelu(x), (X.bfloat16(),)),
    "swiglu": (lambda a, b: F.silu(a) * b, (X, Y)),
    "swiglu_chunked": (swiglu, (EVEN,)),
    "geglu": (geglu, (EVEN, normal(256))),
    "activations": (activations, (X,)),
    "rotary": (rotary, (normal(2, 3, 5, 64), normal(5, 64), normal(5, 64) + 1)),
    "rotary_odd": (rotary, (normal(2, 3, 5, 22), normal(5, 22), normal(5, 22) + 1)),
    "cumsum": (lambda x: torch.cumsum(x, -1), (X,)),
    "cumsum_rows": (lambda x: torch.cumsum(x, 0), (X,)),
    "cumsum_whole": (lambda x: torch.cumsum(x, -1), (whole(9, 5, 77),)),
    "cumprod": (lambda x: torch.cumprod(x * 0.01 + 1, -1), (X,)),
    "nucleus": (nucleus, (X,)),
    "softmax_cumsum": (lambda x: F.softmax(x, -1).cumsum(-1).amax(-1), (X,)),
    "logsumexp": (lambda x: torch.logsumexp(x, -1), (X,)),
    "argmax": (lambda x: torch.argmax(x, -1), (X,)),
    "argmin_rows": (lambda x: torch.argmin(x, 0), (X,)),
    "argmax_all": (lambda x: torch.argmax(x), (X,)),
    "argmax_float64": (lambda x: torch.argmax(x, -1), (X.double(),)),
    "max_with_places": (lambda x: torch.max(x, -1), (X,)),
    "min_rows": (lambda x: torch.min(x, 0), (X,)),
    "huber": (lambda x, y: F.huber_loss(x, y), (X, Y)),
    "smooth_l1": (lambda x, y: F.smooth_l1_loss(x, y), (X, Y)),
    "mse": (lambda x, y: F.mse_loss(x, y), (X, Y)),
    "bce": (lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid()), (X, Y)),
    "bce_logits": (lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()), (X, Y)),
    "kl": (lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"), (X, Y)),
    "kl_log": (lambda x, y: F.kl_div(x, y, log_target=True, reduction="sum"), (X, Y)),
    "cosine": (lambda x, y: F.cosine_similarity(x, y), (X, Y)),
    "normalize": (lambda x: F.normalize(x), (X,)),
    "normalize_rows": (lambda x: F.normalize(x, dim=0), (X,)),
    "norm_3": (lambda x: torch.linalg.vector_norm(x, 3, dim=-1), (X,)),
    "sum_rows": (lambda x: x.sum(0), (normal(700, 65),)),
    "mean_and_var_rows": (lambda x: (x.mean(0), x.var(0)), (normal(512, 65),)),
    "sum_both_ends": (lambda x: x.sum((0, 2)), (normal(8, 5, 33),)),
    "var_mean": (lambda x: torch.var_mean(x, -1), (X,)),
    "std": (lambda x: (x.std(), x.std(-1)), (X,)),
    "total": (lambda x: (x * x).sum(), (normal(300, 1000),)),
    "total_prime": (lambda x: x.sum(), (normal(40009),)),
    "many": (lambda x: ((x > -9).all(), (x > 3).any(1), x.amax((0, 1)), x.mean() + 1), (X,)),
    "product": (lambda x: (x * 0.1 + 1).prod(1), (X,)),
    "embedding": (torch.nn.Embedding(10, 16), (whole(10, 8),)),
    "index": (lambda x, i: x[i], (X, torch.tensor([3, -1, 0]))),
    "index_columns": (lambda x, i: x[:, i] * 2, (X, whole(COLUMNS, 77))),
    "gather": (lambda x, i: torch.gather(x, 1, i), (X, whole(COLUMNS, ROWS, 5))),
    "roll": (lambda x: torch.roll(x, 1, 1), (X,)),
    "flip": (lambda x: torch.flip(x, [1]) - x, (X,)),
    "triangles": (lambda x: torch.tril(x) + torch.triu(x, 1) * 2, (X,)),
    "causal": (causal, (normal(2, 33, 33),)),
    "powers": (lambda x: x.clamp(-1, 1) ** 2 + x.abs() ** 0.5 + 2**x + (x.abs() + 0.1).pow(x), (X,)),
    "trigonometry": (lambda x: torch.sin(x) + torch.cos(x) * torch.tanh(x) + torch.atan(x), (X,)),
    "halves_joined": (lambda x: torch.stack([x[..., 0::2], x[..., 1::2]], -1).flatten(-2), (EVEN,)),
    "rolled": (
        lambda x: (torch.roll(x.relu().view(-1, 4, 5, 6), (1, 2), (1, 2)) * 2).view(-1, 20, 6).softmax(-1),
        (normal(3, 20, 6),),
    ),
    "pooled_whole": (lambda x: F.adaptive_avg_pool1d(x.transpose(1, 2), 1).flatten(1), (normal(3, 20, 6),)),
    "padded_softmax": (lambda x: F.softmax(F.pad(x, (1, 2)), -1), (X,)),
    "joined_long": (lambda x, y: torch.cat([x, y * 2]), (normal(20011), normal(30001))),
    "joined_rows": (lambda x, y: torch.cat([x, y[:5]], 0).relu(), (X, Y)),
    "repeated": (lambda x: torch.stack([x, x * 2], 1).repeat(1, 2, 1).unbind(1), (EVEN,)),
    "shifted_view": (lambda x: x[1:].reshape(-1, 17).softmax(-1), (normal(35, 4 * 17),)),
    "integers": (lambda x: (x * 3 - 1).clamp(0, 50) // 7 + x % 5, (whole(50, 9, 77, low=-50),)),
    "counted": (lambda x: x + torch.arange(COLUMNS) + torch.ones(COLUMNS), (X,)),
    "table": (lambda x: x[:3] * torch.tensor([1.0, 2.0, 3.0])[:, None], (X,)),
    "scalar": (lambda x, y: (x * y).tanh(), (normal(1)[0], normal(1)[0] + 1)),
    "compared": (lambda x, y: (x > y) | (x == 0) & ~(y <= 0.5), (X, Y)),
    "rounded": (lambda x: torch.round(x * 4) + torch.floor(x) + torch.ceil(x) + torch.sign(x), (X,)),
    "mixed_types": (lambda x, i: x * i + (i > 3).float(), (X.bfloat16(), whole(9, ROWS, COLUMNS).int())),
    "bytes": (lambda x: x.float() / 255, (whole(255, 7, 33).to(torch.uint8),)),
}  # fmt: skip


@dataclass
class Built:
    """One compiled point of one case."""

    case: Traced
    candidate: Candidate
    symbol: str
    library: Any


def random_point(space: Space, seed: int) -> Point:
    chooser = random.Random(seed)
    return tuple((p.name, chooser.choice(p.values)) for p in space.parameters)


def loops_template(case: Traced) -> Template:
    proposals = templates(case.problem, case.graph, target=TARGET)
    assert proposals.refusals == ()
    return next(t for t in proposals.templates if t.name == "loops")


@pytest.fixture(scope="module")
def library_of(build_folder: Path) -> Callable[[str], list[Built]]:
    """Compiles the group of a case on first use."""
    names = list(CASES)
    built: dict[str, list[Built]] = {}

    def get(name: str) -> list[Built]:
        if name not in built:
            start = names.index(name) // GROUP * GROUP
            jobs, entries = [], []
            for n in names[start : start + GROUP]:
                function, inputs = CASES[n]
                case = traced(function, *inputs)
                template = loops_template(case)
                points = [template.space.default()]
                if names.index(n) % 2:
                    points.append(random_point(template.space, len(n)))
                for number, point in enumerate(points):
                    candidate = template.emit(point)
                    assert isinstance(candidate, Candidate)
                    jobs.append((f"{n}_{number}", case.problem, candidate))
                    entries.append((n, Built(case, candidate, f"{n}_{number}", None)))
            library = build(build_folder, f"group{start}", jobs)
            for n, entry in entries:
                entry.library = library
                built.setdefault(n, []).append(entry)
        return built[name]

    return get


def kinds(x: torch.Tensor) -> torch.Tensor:
    """Returns 0 for numbers, 1 for NaN, 2 and 3 for the infinities."""
    return torch.isnan(x) * 1 + torch.isposinf(x) * 2 + torch.isneginf(x) * 3


def assert_close(got: torch.Tensor, truth: torch.Tensor, reference: torch.Tensor) -> None:
    """Checks values as the judge does: multiples of the reference's own error, with a floor of a few units."""
    assert got.dtype == reference.dtype
    assert got.shape == reference.shape
    if not got.is_floating_point():
        assert torch.equal(got, reference)
        return
    # Where float32 itself departs from the truth (GELU of infinity is NaN in float32 only) either will do.
    disputed = kinds(reference) != kinds(truth)
    assert torch.equal(torch.where(disputed, 0, kinds(got)), torch.where(disputed, 0, kinds(reference)))
    good = torch.isfinite(reference) & torch.isfinite(truth)
    g, t, r = (x.double()[good] for x in (got, truth, reference))
    if not g.numel():
        return
    unit = t.abs().clamp_min(torch.finfo(got.dtype).tiny) * torch.finfo(got.dtype).eps
    mine, its = (g - t).abs(), (r - t).abs()
    excess = (mine - 4 * unit).clamp_min(0)
    assert excess.max() <= 8 * its.max(), f"largest error {mine.max():.3g}, reference {its.max():.3g}"
    assert mine.square().mean().sqrt() <= 4 * its.square().mean().sqrt() + unit.max() * 2


@pytest.mark.parametrize("name", list(CASES))
def test_values(library_of: Callable[[str], list[Built]], name: str) -> None:
    for built in library_of(name):
        got = run_candidate(built.library, built.symbol, built.case, built.candidate)
        for g, t, r in zip(got, built.case.call(torch.float64), built.case.call(None), strict=True):
            assert_close(g, t, r)


def spoiled(x: torch.Tensor, seed: int) -> torch.Tensor:
    """Returns a copy with rows of NaN, infinities, huge values, zeros and equal values."""
    if not x.is_floating_point() or x.numel() < 64 or x.dim() < 2:
        return x
    y = x.clone()
    rows = y.reshape(-1, y.shape[-1])
    generator = torch.Generator().manual_seed(seed)
    specials = [float("nan"), float("inf"), float("-inf"), 3e4, -3e4, 0.0, -0.0]
    for row in range(0, rows.shape[0], 2):
        value = specials[row // 2 % len(specials)]
        at = int(torch.randint(rows.shape[1], (1,), generator=generator))
        rows[row, at] = value
        if row % 3 == 0:
            rows[row, :] = value
    return y


FINITE_ONLY = ("total", "total_prime", "kl", "many", "bce")
"""A single NaN decides their only result, or PyTorch refuses it."""


@pytest.mark.parametrize("name", [n for n in CASES if n not in FINITE_ONLY])
def test_special_values(library_of: Callable[[str], list[Built]], name: str) -> None:
    for built in library_of(name):
        count = len(built.case.problem.inputs)
        arguments = [spoiled(x, n) if n < count else x for n, x in enumerate(built.case.arguments)]
        got = run_candidate(built.library, built.symbol, built.case, built.candidate, arguments)
        for g, t, r in zip(
            got, built.case.call(torch.float64, arguments), built.case.call(None, arguments), strict=True
        ):
            assert_close(g, t, r)


@pytest.mark.parametrize(
    ("function", "inputs", "operator"),
    [
        (lambda x: torch.linalg.svd(x)[1], (normal(4, 4),), "svd"),
        (lambda x: x @ x.T, (normal(4, 4).double(),), "aten.mm.default"),
        (lambda x: torch.sort(x)[0], (normal(4, 4),), "aten.sort.default"),
        (lambda x: x + 1, (whole(9, 4, 4).to(torch.uint8),), "uint8"),
    ],
)
def test_refuses_by_name(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...], operator: str) -> None:
    case = traced(function, *inputs)
    proposals = templates(case.problem, case.graph, target=TARGET)
    assert proposals.templates == ()
    assert any(operator in refusal.reason and "no expert for" in refusal.reason for refusal in proposals.refusals)


def test_one_operator_is_refused_once_with_the_reason_of_the_expert_that_knows_it() -> None:
    case = traced(lambda x: torch.topk(x, 2, 0)[0], normal(9, 4))
    (refusal,) = templates(case.problem, case.graph, target=TARGET).refusals
    assert refusal.text == "aten.topk.default: it is not along the last dimension"


def test_names_of_cpp_and_of_the_printer(build_folder: Path) -> None:
    """Tensors may be called what they like: C++'s words and the printer's own names are put aside."""
    case = traced(lambda a, b, c, d: (a * b).softmax(-1) + c * d, *(normal(9, 33) + n for n in range(4)))
    renamed = dict(zip(("in0", "in1", "in2", "in3", "out"), ("int", "n", "i0", "row0", "N"), strict=True))
    problem, graph = rename(case, renamed)
    candidate = templates(problem, graph, target=TARGET).templates[0]
    emitted = candidate.emit(candidate.space.default())
    assert isinstance(emitted, Candidate)
    library = build(build_folder, "names", [("named", problem, emitted)])
    case.problem = problem
    got = run_candidate(library, "named", case, emitted)
    assert_close(got[0], case.call(torch.float64)[0], case.call(None)[0])


def rename(case: Traced, names: dict[str, str]) -> tuple[Problem, Graph]:
    text = dumps((case.problem, case.graph))
    for old, new in names.items():
        text = text.replace(f'"name":"{old}"', f'"name":"{new}"')
    problem, graph = loads(text)
    return problem, graph


def test_every_point_has_its_own_source_and_one_emission() -> None:
    template = loops_template(traced(*CASES["residual_rms_norm"][:1], *CASES["residual_rms_norm"][1]))
    texts = set()
    for parameter in template.space.parameters:
        for option in parameter.values:
            point = tuple((k, option if k == parameter.name else v) for k, v in template.space.default())
            candidate = template.emit(point)
            assert isinstance(candidate, Candidate)
            assert candidate == template.emit(point)
            assert candidate.point == point
            texts.add(candidate.sources[0].text)
    assert len(texts) == 1 + sum(len(p.values) - 1 for p in template.space.parameters)


def test_threads_do_not_change_a_bit(build_folder: Path) -> None:
    case = traced(lambda x, y: F.mse_loss(x, y), normal(128, 1000), normal(128, 1000) + 1)
    template = loops_template(case)
    jobs = []
    for number in (1, 2):
        point = tuple((k, number if k == "threads" else v) for k, v in template.space.default())
        candidate = template.emit(point)
        assert isinstance(candidate, Candidate)
        jobs.append((f"threads_{number}", case.problem, candidate))
    library = build(build_folder, "threads", jobs)
    results = [run_candidate(library, symbol, case, candidate)[0] for symbol, _, candidate in jobs]
    assert torch.equal(*results)
    assert results[0].item() == pytest.approx(case.call(torch.float64)[0].item(), rel=1e-6)


def test_equal_products_cancel(build_folder: Path) -> None:
    """One of two products must not be fused with their difference: what is 0 in PyTorch is 0 here."""
    case = traced(lambda a, b, c, d: (a * b - c * d, a * b + (-c) * d), X, Y, X.clone(), Y.clone())
    template = loops_template(case)
    candidate = template.emit(template.space.default())
    assert isinstance(candidate, Candidate)
    library = build(build_folder, "products", [("products", case.problem, candidate)], optimise="-O3")
    assert all(bool((x == 0).all()) for x in run_candidate(library, "products", case, candidate))


def test_a_graph_that_would_take_minutes_is_refused_with_its_size() -> None:
    node = traced(lambda x: x + 1, X).graph.nodes[0]
    small = traced(lambda x: x + 1, X)
    large = replace(small.graph, nodes=(node,) * (MOST_NODES + 1))
    offer = templates(small.problem, large, target=TARGET)
    assert offer.templates == ()
    assert f"{MOST_NODES + 1} operators" in offer.refusals[0].reason


def test_a_fold_that_is_written_twice_is_computed_once() -> None:
    case = traced(lambda x: (F.softmax(x, -1), F.log_softmax(x, -1)), X)
    kernels = nests_of(case.problem, case.graph, READERS)
    assert not isinstance(kernels, Refusal)
    ((loops,),) = kernels
    assert sorted(str(getattr(fold, "kind", "")) for fold in loops.segments[0].folds) == ["max_of_exp", "sum"]


def test_moments_of_columns_read_every_element_once() -> None:
    case = traced(lambda x: (x.mean(0), x.var(0)), normal(512, 65))
    kernels = nests_of(case.problem, case.graph, READERS)
    assert not isinstance(kernels, Refusal)
    readers = [loops for boxes in kernels for loops in boxes if "in0" in buffers_of([loops])[0]]
    assert len(readers) == 1


def test_one_source_comes_of_one_graph_each_time() -> None:
    case = traced(lambda x: (x.mean(0), x.var(0), x.sum(0), x.amax(0)), normal(512, 65))
    emitted = set()
    for _ in range(8):
        template = templates(case.problem, case.graph, target=TARGET).templates[0]
        made = template.emit(template.space.default())
        assert isinstance(made, Candidate)
        emitted.add("\n".join(file.text for file in made.sources))
    assert len(emitted) == 1
