"""Every rule is proved: on random programs that it applies to, in float64, what it writes gives the same numbers."""

from __future__ import annotations

import random

import pytest
import torch
from tests.rewrites.interpreter import run
from tests.rewrites.programs import PROGRAMS

from kernelwright.rewrites import RULES, saturate
from kernelwright.rewrites.cost import Rates
from kernelwright.rewrites.egraph import EGraph, Id
from kernelwright.rewrites.extract import Extractor, program
from kernelwright.rewrites.terms import Terms

RATES = Rates(bytes_per_ns=10.0, flops_per_ns=50.0, launch_ns=1000.0)
SHAPES = 25


def test_every_rule_has_a_program() -> None:
    assert set(PROGRAMS) == set(RULES)


@pytest.mark.parametrize("name", sorted(RULES))
def test_rule_holds(name: str) -> None:
    """What one application of a rule adds to the class of a program is equal to the program, element by element."""
    applied = 0
    for seed in range(SHAPES):
        rng = random.Random(f"{name} {seed}")
        egraph = EGraph()
        root = PROGRAMS[name](Terms(egraph), rng)
        tensors = values(egraph, seed)
        truth = outputs(egraph, root, tensors)[0]
        saturate(egraph, (RULES[name],), rounds=1)
        for made in outputs(egraph, root, tensors):
            assert made.shape == truth.shape
            torch.testing.assert_close(made, truth, rtol=1e-10, atol=1e-10)
        applied += egraph.unions > 0
    assert applied >= SHAPES // 4


def values(egraph: EGraph, seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    made = {}
    for item in egraph.classes():
        for node in egraph.nodes(item):
            if node.op == "input":
                name = str(node.argument("name"))
                drawn = torch.randn(egraph.spec(item).shape, generator=generator, dtype=torch.float64)
                made[name] = drawn.abs() + 0.1 if name.startswith("positive") else drawn
    return made


def outputs(egraph: EGraph, root: Id, tensors: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """Returns what the root is worth by each of the calls that its class holds."""
    extractor = Extractor(egraph, (root,), RATES)
    written = {**extractor.by_trees(), **extractor.written()}
    found = []
    for option in extractor.options[egraph.find(root)]:
        choice = {**written, egraph.find(root): option}
        if extractor.order(choice) is not None:
            graph, _ = program(extractor, choice, (), frozenset(tensors))
            found += run(graph, tensors)
    return found
