"""Fits the constants of the model of matrix products to what a bring-up measured.

    python benchmarks/gemm_fit.py BRINGUP.json [--rounds 6]

Least squares over the logarithms of all times, where what concerns the order of one shape's schedules counts four
times as much as the shape's own level. Steps along one constant at a time, so that no optimiser is needed. Prints the
constants and, for each shape, how far the best of the model's first four lies from the best of all that were measured.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from kernelwright.errors import UserError
from kernelwright.experts.gemm import Product, Schedule, fault, parse
from kernelwright.experts.gemm.model import H200, Rates, time_us
from kernelwright.types import replace

FITTED = (
    "latency_us", "loaded_us", "ending_us", "ring_us", "cluster_us", "joining_us", "second_us", "cache_bytes",
    "one_bytes", "shared_bytes", "exposed", "step_us", "fma", "old_fma", "float_fma",
)  # fmt: skip
"""What is not fitted was measured by itself: the launch, device memory."""
WITHIN = 4.0
HELD = 0.02
"""Of the squared logarithm by which a constant leaves the known one: a few dozen shapes say little about some."""
Group = list[tuple[Product, Schedule, float]]


def read(file: Path) -> list[Group]:
    """Each shape's measured schedules that are possible today."""
    groups = []
    for outcome in json.loads(file.read_text())["outcomes"]:
        group: Group = []
        for row in outcome["rows"]:
            if row["us"] is None:
                continue
            product = Product(**(outcome["product"] | {"layout": row["layout"]}))
            try:
                schedule = parse(row["schedule"])
            except UserError:
                continue
            if not fault(schedule, product):
                group.append((product, schedule, row["us"]))
        if len(group) > 1:
            groups.append(group)
    return groups


def loss(groups: list[Group], rates: Rates) -> float:
    """Squared errors of logarithms: around each shape's own mean, and of the means."""
    total = 0.0
    for group in groups:
        errors = [math.log(time_us(s, p, rates) / us) for p, s, us in group]
        least = min(us for _, _, us in group)
        weights = [least / us for _, _, us in group]  # far from the best nothing has to be known well
        mean = sum(w * e for w, e in zip(weights, errors, strict=True)) / sum(weights)
        spread = sum(w * (e - mean) ** 2 for w, e in zip(weights, errors, strict=True)) / sum(weights)
        total += WITHIN * spread + mean**2
    moved = sum(math.log(getattr(rates, name) / getattr(H200, name)) ** 2 for name in FITTED)
    return total / len(groups) + HELD * moved


def fitted(groups: list[Group], rates: Rates, rounds: int) -> Rates:
    """Steps along one constant at a time, by smaller and smaller factors."""
    best, step = loss(groups, rates), 1.4
    for _ in range(rounds):
        for name in FITTED:
            for factor in (step, 1 / step):
                tried = replace(rates, **{name: getattr(rates, name) * factor})
                while (found := loss(groups, tried)) < best:
                    best, rates = found, tried
                    tried = replace(rates, **{name: getattr(rates, name) * factor})
        step = 1 + (step - 1) * 0.7
    return rates


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=6)
    given = parser.parse_args()
    groups = read(given.file)
    rates = fitted(groups, H200, given.rounds)
    print(f"loss {loss(groups, H200):.4f} as it is, {loss(groups, rates):.4f} fitted")
    for name in FITTED:
        print(f"    {name}: float = {getattr(rates, name):.4g}")
    for group in groups:
        p = group[0][0]
        best = min(us for _, _, us in group)
        cells = []
        for given_rates in (H200, rates):
            order = sorted(group, key=lambda one: time_us(one[1], one[0], given_rates))
            four = min(us for _, _, us in order[:4])
            cells.append(f"first {order[0][2] / best:.2f}x best of four {four / best:.2f}x")
        print(f"{p.m:>6} {p.n:>6} {p.k:>6} best {best:8.2f}  as it is: {cells[0]}; fitted: {cells[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
