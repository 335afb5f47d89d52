"""What is impossible is said by name; what the space yields is possible, and spelled so that it can be read."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kernelwright.errors import UserError
from kernelwright.experts.gemm import (
    Direct,
    Dot,
    Hopper,
    Product,
    Schedule,
    Warps,
    candidate,
    fault,
    parse,
    problem_of,
    rules,
    spell,
)
from kernelwright.experts.gemm.space import ranked, schedules
from kernelwright.languages.device_plan import check_device_plan
from kernelwright.languages.devices import cuda_target
from kernelwright.types import Candidate, Failure

PRODUCT = Product(m=512, n=512, k=512)
REFUSED: list[tuple[Product, Schedule, str]] = [
    (PRODUCT, Hopper(bn=20), "multiples of 8"),
    (PRODUCT, Hopper(bm=96), "64 rows"),
    (PRODUCT, Hopper(bm=256, bn=256), "accumulators"),
    (PRODUCT, Hopper(bm=128, bn=256, stages=5), "shared memory"),
    (PRODUCT, Hopper(splits=2), "splits are for the whole cluster"),
    (PRODUCT, Hopper(splits=16, persistent=False, box_store=False), "1, 2, 4 or 8"),
    (PRODUCT, Hopper(parts=16, box_store=False), "shares of k"),
    (PRODUCT, Hopper(cluster_m=4, cluster_n=4), "cluster"),
    (PRODUCT, Hopper(consumers=3, pingpong=True, bm=64, bn=64), "ping-pong"),
    (Product(m=512, n=512, k=500), Hopper(), "multiple of 8"),
    (Product(m=512, n=512, k=512, layout="kn"), Hopper(bn=96), "64 columns"),
    (PRODUCT, Warps(bm=40), "16 x 8"),
    (PRODUCT, Warps(bk=48), "power of two"),
    (PRODUCT, Warps(bm=256, bn=256), "accumulators"),
    (PRODUCT, Dot(rows=17), "1 to 16"),
    (Product(m=64, n=64, k=100), Direct(), "multiple of 8"),
    (Product(m=64, n=64, k=64, layout="kn"), Direct(), "n x k"),
    (PRODUCT, Direct(bm=64, bn=64), "registers"),
    (PRODUCT, Direct(splits=16, warps=4), "shares of k"),
    (PRODUCT, Hopper(tail=9), "as many as there are blocks"),
    (PRODUCT, Hopper(tail=2, parts=2, box_store=False), "without other shares"),
    (PRODUCT, Warps(curve=True, group=3), "power of two"),
    (Product(m=64, n=64, k=64, pair=True), Warps(), "pairs"),
    (Product(m=64, n=64, k=64, pair=True), Hopper(), "pairs"),
    (Product(m=64, n=64, k=64, pair=True, bias=True), Direct(), "neither bias"),
    (Product(m=0, n=1, k=1), Warps(), "m is 0"),
]


@pytest.mark.parametrize(("product", "schedule", "words"), REFUSED, ids=lambda x: x if isinstance(x, str) else "")
def test_impossible_schedules_are_refused_by_name(product: Product, schedule: Schedule, words: str) -> None:
    assert words in fault(schedule, product)
    refused = candidate(product, schedule)
    assert isinstance(refused, Failure)
    assert refused.stage == "emit"


def test_architectures_are_told_apart() -> None:
    assert "sm_90a" in fault(Hopper(), PRODUCT, "sm_80")
    assert "clusters" in fault(Warps(splits=2), PRODUCT, "sm_80")
    assert fault(Warps(parts=2), PRODUCT, "sm_80") == ""
    assert fault(Warps(splits=2), PRODUCT, "sm_100") == ""


@settings(max_examples=6, deadline=None)
@example(m=1635, n=2447, k=4999, layout="nk", pick=0)  # large, and no tensor map takes rows of odd length
@given(
    m=st.integers(1, 5000), n=st.integers(1, 5000), k=st.integers(1, 5000), layout=st.sampled_from(["nk", "kn"]),
    pick=st.integers(0, 10_000),
)  # fmt: skip
def test_what_the_space_yields_makes_a_plan_that_the_judge_takes(
    m: int, n: int, k: int, layout: str, pick: int
) -> None:
    product = Product(m=m, n=n, k=k, layout=layout)  # type: ignore[arg-type]
    found = list(schedules(product))
    assert found
    problem = problem_of(product)
    for schedule in (found[pick % len(found)], *ranked(product, 2)):
        made = candidate(product, schedule)
        assert isinstance(made, Candidate)
        assert check_device_plan(problem, made, cuda_target("sm_90a")) is None
        assert parse(spell(schedule)) == schedule
        rows, columns = rules.tile_of(schedule, product)
        assert rules.grid_of(schedule, product).tiles == -(-m // rows) * -(-n // columns)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a", "sm_100"])
def test_large_products_have_schedules_on_every_architecture(architecture: str) -> None:
    found = list(schedules(Product(m=4096, n=4096, k=4096), architecture))
    assert found
    assert any(isinstance(schedule, Hopper) for schedule in found) == (architecture == "sm_90a")


@pytest.mark.parametrize("text", ["", "cutlass bm=1", "warps bm=x", "warps what=3"])
def test_unreadable_schedules_are_the_users_fault(text: str) -> None:
    with pytest.raises(UserError):
        parse(text)
