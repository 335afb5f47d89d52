"""What is put in where correctness is checked: families of input values, and parameter values.

A family replaces the values of tensors that hold free numbers; integers, booleans and floats with a
structure of their own (masks, tables with few distinct values) have families of their own (structured.py).

Covers: precision that only shows on odd values, cancellation (`shifted`), coherent rounding (`constant`,
    `powers`), overflow of squares and exponentials (`large`), functions that hold near zero only (`huge`,
    `tiny`), masks by sign, order of a running maximum (`ascending`), rows of different scale (`rows`), rows
    that one element decides (`spikes`), a few parts unlike the others (`patchwork`), sums of small integers,
    which are exact in any order (`exact`), NaN and infinities (`nonfinite`).
Does not cover: values outside a tensor's declared range; relations between tensors that only the
    reference's own generator knows (family `given` keeps them).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from kernelwright.judge.patchwork import patchwork
from kernelwright.judge.structured import STRUCTURED, Structure, fill, observe
from kernelwright.reference_program import DTYPES, mostly_distinct
from kernelwright.types import TensorSpec, replace

NONFINITE = "nonfinite"
EXACT = "exact"
HUGE = "huge"
CEILINGS = (1e7, 1e5, 1e3)
"""Largest magnitudes of family `huge`; the largest at which the reference stays finite is used."""
MASKED_FROM = 8
"""Rows of a tensor from which on some are masked in family `nonfinite`."""
WILD = 200.0
"""A number whose exponential overflows."""
Values = Callable[[tuple[int, ...], torch.Generator], torch.Tensor]


def _normal(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, generator=g, device=g.device)


def _unit(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
    return torch.rand(shape, generator=g, device=g.device)


def _heavy(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
    return (_normal(shape, g) / _normal(shape, g).abs().clamp(min=1e-3)).clamp(-1e3, 1e3)


def _constant(shape: tuple[int, ...], g: torch.Generator, index: int = 0) -> torch.Tensor:
    # So near to one value that rounding to fewer bits errs in one direction everywhere: sums cannot average it out.
    # The value lies between neighbours in bfloat16 (7 bits) and in TF32 and float16 (10 bits), off their middle by
    # amounts that differ between tensors, and every second tensor is of magnitude 1 to 2: so the errors of two
    # tensors never cancel in their sum or difference, whatever the signs (least when 0.45 meets 0.2).
    odd = index % 2
    steps = torch.randint(1, 127, (1,), generator=g, device=g.device) / 128
    off = (3 + (0.2 if odd else 0.45)) / 1024 * _sign(g)
    scale = 1.0 if odd else 2.0 ** torch.randint(0, 2, (1,), generator=g, device=g.device)
    return (1 + steps + off) * scale * _sign(g) * (1.0 + 2.0**-16 * _normal(shape, g))


def _powers(shape: tuple[int, ...], g: torch.Generator, index: int, seed: int) -> torch.Tensor:
    # Powers of two change no rounding, so that errors still add up where nothing looks constant. Tensors of one
    # shape have the same ones in the same places: their sums and differences round alike as well.
    steps = torch.randint(-2, 1, shape, generator=torch.Generator(g.device).manual_seed(seed), device=g.device)
    return torch.ldexp(_constant(shape, g, index), steps)


def _sign(g: torch.Generator) -> float:
    return 1.0 if float(_unit((), g)) < 0.5 else -1.0


def _zeros(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
    signs = torch.sign(_normal(shape, g))
    return torch.where(_unit(shape, g) < 0.5, 0.0, signs) * torch.where(_unit(shape, g) < 0.5, 1.0, _unit(shape, g))


def _outliers(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
    drawn = 0.1 * _normal(shape, g)
    flat = drawn.view(-1)
    late = flat[len(flat) * 3 // 4 :]
    count = max(1, len(late) // 2000)
    late[torch.randint(0, len(late), (count,), generator=g, device=g.device)] = 50.0 * torch.sign(_normal((count,), g))
    flat[-1] = 60.0
    return drawn


def _huge(shape: tuple[int, ...], g: torch.Generator, ceiling: float = CEILINGS[0]) -> torch.Tensor:
    # Every magnitude from one to the ceiling is as frequent as any other.
    return torch.sign(_normal(shape, g)) * ceiling ** _unit(shape, g)


def _tiny(shape: tuple[int, ...], g: torch.Generator, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    # Down to a few times the smallest normal number. Not below it: flushing subnormal numbers is no fault.
    low = math.log2(torch.finfo(dtype).tiny) + 3
    high = max(low + 4, low / 2)
    return torch.sign(_normal(shape, g)).double() * 2.0 ** (low + (high - low) * _unit(shape, g).double())


def _shifted(shape: tuple[int, ...], g: torch.Generator, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    # A mean a thousand times the spread: what the difference of two large sums leaves is not enough.
    centre = 1000.0 * (1.0 + _unit((*shape[:-1], 1) if shape else (), g)) * _sign(g)
    return centre * (1.0 + max(2.0**-10, 8.0 * torch.finfo(dtype).eps) * _normal(shape, g))


def _rows(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
    scales = 10.0 ** (4.0 * _unit((*shape[:-1], 1), g) - 2.0) if shape else torch.ones((), device=g.device)
    return _normal(shape, g) * scales


def _spikes(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
    # Rows far below zero, and rows in which one element alone decides: the first, the last, or any. A maximum that
    # starts at zero, or leaves an end out, is harmless everywhere else.
    if not shape or not math.prod(shape):
        return _normal(shape, g)
    drawn = _normal(shape, g)
    rows, columns = drawn.view(-1, shape[-1]), shape[-1]
    form = torch.randperm(len(rows), generator=g, device=g.device) % 4
    rows[form == 0] -= WILD
    rows[form == 1, 0] = WILD
    rows[form == 2, columns - 1] = WILD
    any_place = torch.randint(0, columns, (len(rows),), generator=g, device=g.device)
    rows[form == 3, any_place[form == 3]] = WILD
    return drawn


def _ascending(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
    return torch.sort(4.0 * _normal(shape, g), dim=-1).values if shape else _normal(shape, g)


def _place_nans(rows: torch.Tensor, chosen: Sequence[int], g: torch.Generator) -> None:
    # Several in one row, of which the first counts; and one right behind a running maximum, on the diagonal, where
    # the wrong one of two indices finds it as well.
    columns = rows.shape[1]
    for row in chosen[:-1]:
        rows[row, torch.randint(0, columns, (3,), generator=g, device=g.device)] = float("nan")
    rows[chosen[-1]] = rows[chosen[-1]].nan_to_num(0.0).sort().values
    rows[chosen[-1], chosen[-1] % columns] = float("nan")


def _nonfinite(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
    drawn = _normal(shape, g)
    rows = drawn.reshape(-1, shape[-1]) if shape else drawn.reshape(1, 1)
    hidden = -1
    if len(rows) >= MASKED_FROM:
        # As masks leave them: rows that begin with minus infinity, and one that holds nothing else.
        order = torch.randperm(len(rows), generator=g, device=g.device)
        rows[order[:3], 0] = float("-inf")
        rows[order[3]] = float("-inf")
        hidden = int(order[3])
        _place_nans(rows, order[4:7].tolist(), g)
    flat, taken = drawn.view(-1), set[int]()
    # Not in the hidden row and no two in one place, or some draws would hold no NaN.
    while len(taken) < min(3, len(flat)):
        place = int(torch.randint(0, len(flat), (1,), generator=g, device=g.device))
        if place not in taken and place // rows.shape[1] != hidden:
            flat[place] = (float("nan"), float("inf"), float("-inf"))[len(taken)]
            taken.add(place)
    return drawn


def _patchwork(shape: tuple[int, ...], g: torch.Generator, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    odd = (lambda shape, g: _shifted(shape, g, dtype), VALUES["large"], _spikes, VALUES["small"], _constant, _heavy)
    return patchwork(shape, g, usual=_normal, odd=odd)


VALUES: dict[str, Values] = {
    "normal": _normal,
    "uniform": lambda shape, g: 2.0 * _unit(shape, g) - 1.0,
    "large": lambda shape, g: 64.0 * _normal(shape, g),
    "small": lambda shape, g: 1e-3 * _normal(shape, g),
    "heavy": _heavy,
    "positive": lambda shape, g: 0.5 + _unit(shape, g),
    "negative": lambda shape, g: -0.5 - _unit(shape, g),
    "integers": lambda shape, g: torch.randint(-4, 5, shape, generator=g, device=g.device).float(),
    EXACT: lambda shape, g: torch.randint(-1, 2, shape, generator=g, device=g.device).float(),
    HUGE: _huge,
    "tiny": _tiny,
    "shifted": _shifted,
    "constant": _constant,
    "powers": lambda shape, g: _powers(shape, g, 0, 0),
    "zeros": _zeros,
    "outliers": _outliers,
    "rows": _rows,
    "spikes": _spikes,
    "ascending": _ascending,
    NONFINITE: _nonfinite,
    "patchwork": _patchwork,
}
BY_DTYPE = {"tiny": _tiny, "shifted": _shifted, "patchwork": _patchwork}


def is_free(spec: TensorSpec, drawn: torch.Tensor) -> bool:
    """Tells whether a drawn tensor holds free numbers: floating, finite, and mostly distinct."""
    return mostly_distinct(drawn)


def observed(
    specs: Sequence[TensorSpec], draws: Sequence[Sequence[torch.Tensor]], others: Sequence[TensorSpec] = ()
) -> tuple[Structure | None, ...]:
    """Returns what several draws show of each tensor without free numbers (structured.py), None for the others."""
    sizes = {size for spec in (*specs, *others) for size in spec.shape}
    return tuple(
        observe(spec, tensors, free=is_free(spec, tensors[0]), sizes=sizes)
        for spec, tensors in zip(specs, zip(*draws, strict=True), strict=True)
    )


def fill_structured(
    family: str, structures: Sequence[Structure | None], given: Sequence[torch.Tensor], seed: int
) -> tuple[torch.Tensor, ...] | None:
    """Returns the inputs of a structured family; None where no tensor would be another."""
    generator = torch.Generator().manual_seed(seed)
    made = [
        fill(family, tensor, structure, generator) if structure else None
        for structure, tensor in zip(structures, given, strict=True)
    ]
    if all(tensor is None for tensor in made):
        return None
    return tuple(old if new is None else new for old, new in zip(given, made, strict=True))


def within_seen(specs: Sequence[TensorSpec], given: Sequence[torch.Tensor]) -> tuple[TensorSpec, ...]:
    """Returns specs whose free tensors are limited to the range of a draw: what every reference accepts."""
    return tuple(
        replace(spec, low=float(tensor.min()), high=float(tensor.max()))
        if is_free(spec, tensor) and not is_limited(spec)
        else spec
        for spec, tensor in zip(specs, given, strict=True)
    )


def fill_family(
    family: str,
    specs: Sequence[TensorSpec],
    given: Sequence[torch.Tensor],
    seed: int,
    *,
    ceiling: float = CEILINGS[0],
) -> tuple[torch.Tensor, ...] | None:
    """Returns the inputs of a family, made from the reference's own draw; None where it does not apply.

    It does not apply where no input is free: then every family would be the same. `ceiling` is the
    largest magnitude of family `huge`.
    """
    if family == "given":
        return tuple(given)
    if family in STRUCTURED:
        # What one draw shows is less than what several do (Draws looks at those), but never too much.
        near = [tensor.cpu() for tensor in given]
        varied = fill_structured(family, observed(specs, [near]), near, seed)
        return None if varied is None else tuple(t.to(g.device) for t, g in zip(varied, given, strict=True))
    free = [is_free(spec, tensor) for spec, tensor in zip(specs, given, strict=True)]
    if not any(free):
        return None
    generator = torch.Generator(given[0].device).manual_seed(seed)
    made = []
    for index, (spec, tensor, change) in enumerate(zip(specs, given, free, strict=True)):
        if not change:
            made.append(tensor)
            continue
        if family == "constant":
            drawn = _constant(spec.shape, generator, index)
        elif family == "powers":
            drawn = _powers(spec.shape, generator, index, seed)
        elif family == HUGE:
            drawn = _huge(spec.shape, generator, min(ceiling, torch.finfo(DTYPES[spec.dtype]).max / 4))
        elif family in BY_DTYPE:
            drawn = BY_DTYPE[family](spec.shape, generator, DTYPES[spec.dtype])
        else:
            drawn = VALUES[family](spec.shape, generator)
        made.append(_limited(drawn, spec, family).to(DTYPES[spec.dtype]))
    return tuple(made)


def _limited(drawn: torch.Tensor, spec: TensorSpec, family: str) -> torch.Tensor:
    if spec.low is None and spec.high is None:
        return drawn
    if spec.low is not None and spec.high is not None and family not in (NONFINITE, "zeros", "integers", EXACT):
        # Folded, not cut: most values of a wide family would sit on the limits otherwise.
        width = spec.high - spec.low
        phase = torch.remainder(drawn - spec.low, 2 * width)
        return spec.low + torch.where(phase > width, 2 * width - phase, phase)
    return drawn.clamp(min=spec.low, max=spec.high)


# -------------------------------------------------------------------------------------------------- parameters


def exact_parameters(specs: Sequence[TensorSpec], drawn: Sequence[torch.Tensor], seed: int) -> tuple[torch.Tensor, ...]:
    """Returns drawn parameters with free numbers replaced by small integers, for family `exact`."""
    g = torch.Generator().manual_seed(seed)
    return tuple(
        torch.randint(-1, 2, tensor.shape, generator=g, device=g.device).to(tensor) if is_free(spec, tensor) else tensor
        for spec, tensor in zip(specs, drawn, strict=True)
    )


def draw_parameters(
    specs: Sequence[TensorSpec], initial: Sequence[torch.Tensor], style: int, seed: int
) -> tuple[torch.Tensor, ...]:
    """Returns values for a module's parameters and buffers, drawn in one of three styles.

    Style 0 keeps the module's own initialisation where that is random; 1 draws normal values of the
    same scale; 2 uniform ones. What the module initialises to one value (all ones, all zeros) is
    always drawn, so that it cannot be left out of a computation; variances stay positive.
    Integers, booleans, single numbers and tables (buffers with several values) stay as they are.
    """
    generator = torch.Generator(initial[0].device if initial else "cpu").manual_seed(seed)
    return tuple(_parameter(spec, tensor, style % 3, generator) for spec, tensor in zip(specs, initial, strict=True))


def _parameter(spec: TensorSpec, initial: torch.Tensor, style: int, g: torch.Generator) -> torch.Tensor:
    if not initial.is_floating_point() or initial.numel() == 0 or not bool(initial.isfinite().all()):
        return initial.clone()
    values = initial.double()
    flat = bool((values == values.reshape(-1)[0]).all())
    if spec.role == "buffer" and (not flat or initial.numel() == 1):
        return initial.clone()
    shape = tuple(initial.shape)
    if spec.name.endswith("var"):
        return (0.5 + _unit(shape, g)).to(initial.dtype)
    scale = 0.5 if flat else float(values.square().mean().sqrt())
    centre = float(values.reshape(-1)[0]) if flat else 0.0
    if style == 0:
        return (centre + scale * _normal(shape, g)).to(initial.dtype) if flat else initial.clone()
    if style == 1:
        return (centre + scale * _normal(shape, g)).to(initial.dtype)
    return (centre + 2.0 * scale * (2.0 * _unit(shape, g) - 1.0)).to(initial.dtype)


def is_limited(spec: TensorSpec) -> bool:
    """Tells whether a tensor's numbers have a declared range."""
    return spec.low is not None or spec.high is not None
