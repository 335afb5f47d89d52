"""The whole road of a bring-up without a device: binaries, worker, checks, times, and workers that die."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gemm_bringup
from kernelwright.experts.gemm import Hopper, Product, Warps
from kernelwright.languages.devices import cuda_target
from kernelwright.process import DeadlineExceeded
from kernelwright.run.gemm.binaries import Binary, Point, build
from kernelwright.run.gemm.measuring import Measuring

ROOT = Path(__file__).resolve().parents[3]
WORKER = "tests.run.gemm.emulated_worker"
LONG_S = 500.0
"""However busy the machine is: it compiles what it emulates meanwhile."""
PRODUCT = Product(m=40, n=32, k=64)
TILE = Warps(bm=16, bn=32, bk=32, warps_m=1, warps_n=1, stages=2)


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}:{ROOT}")


def points(*groups: int) -> list[Point]:
    made = [Warps(bm=16, bn=32, bk=32, warps_m=1, warps_n=1, stages=2, group=group) for group in groups]
    return [Point(product=PRODUCT, schedule=schedule) for schedule in made]


def test_right_kernels_are_timed_and_wrong_ones_named(tmp_path: Path) -> None:
    file = tmp_path / "any.cubin"
    file.write_bytes(b"code")
    ready = Binary(path=str(file))
    kn = Product(m=40, n=32, k=64, layout="kn")
    todo = [(point, ready) for point in points(17, 8, 19, 23)]
    todo += [
        (Point(product=kn, schedule=TILE), ready),
        (Point(product=PRODUCT, schedule=Hopper(bn=7)), Binary(path="", fault="bn is 7")),
    ]
    with Measuring(WORKER, deadline_s=LONG_S) as device:
        assert device.device["name"] == "emulated"
        outcome = device.measure(PRODUCT, todo, rounds=3, baselines=("torch",))
    rows = {(row.layout, row.schedule.rpartition("group=")[2][:2]): row for row in outcome.rows}
    said = {key[1]: row.failed for key, row in rows.items()}
    assert said["19"] == "wrong on whole numbers"
    assert said["23"] == "wrote beside its output"
    assert "status 3" in said["17"]
    right = [row for row in outcome.rows if row.us is not None]
    assert sorted(row.layout for row in right) == ["kn", "nk"]
    assert all(row.error is not None and row.error < 1e-3 for row in right)
    assert {name for name, _ in outcome.baselines} == {"torch_kn", "torch_nk"}
    best, torch = outcome.best(), outcome.baseline("torch")
    assert best is not None
    assert best.us is not None
    assert torch == pytest.approx(600 / 3)  # of a graph of 3 calls
    assert best.us == pytest.approx(300 / 7)
    assert [row.failed for row in outcome.rows if "bn=7" in row.schedule] == ["bn is 7"]


def test_a_worker_that_takes_too_long_costs_one_schedule_only(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def ask(self: Measuring, product: Product, left: list[tuple[str, str, str]], *others: object) -> dict[str, Any]:
        asked.append(left)
        if len(left) == 2:
            self._doing = f"{left[0][0]} {left[0][1]}"
            raise DeadlineExceeded("it took longer than 45 s")
        return {"points": ({"layout": left[0][0], "schedule": left[0][1], "us": 1.0},), "baselines": {"torch_nk": 2.0}}

    monkeypatch.setattr(Measuring, "_ask", ask)
    todo = [(point, Binary(path="any")) for point in points(13, 8)]
    outcome = Measuring(WORKER).measure(PRODUCT, todo)
    assert [row.failed for row in outcome.rows] == ["it took longer than 45 s", ""]
    assert [len(left) for left in asked] == [2, 1]
    assert outcome.best() == outcome.rows[1]


def test_bringup_goes_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = points(8)
    binaries = build(found, cuda_target("sm_90a"), tmp_path / "binaries", workers=1)
    assert all(Path(b.path).stat().st_size > 1000 and b.spill_bytes == 0 for b in binaries.values()), binaries
    again = build(found, cuda_target("sm_90a"), tmp_path / "binaries", workers=1)
    assert again == binaries
    monkeypatch.setattr(gemm_bringup, "Measuring", lambda: Measuring(WORKER, deadline_s=LONG_S))
    failures = gemm_bringup.measure([(PRODUCT, found, False)], binaries, tmp_path / "out", 1e12)
    assert failures == 0
    assert "torch" in capsys.readouterr().out
    kept = json.loads((tmp_path / "out" / "bringup.json").read_text())
    assert len(kept["outcomes"][0]["rows"]) == 1


def test_bringup_covers_every_family_and_class() -> None:
    found = gemm_bringup.work(2)
    schedules = [point.schedule for _, points, _ in found for point in points]
    assert {type(schedule).__name__ for schedule in schedules} == {"Hopper", "Warps", "Direct", "Dot"}
    assert {product.dtype for product, _, _ in found} == {"float16", "bfloat16"}
    assert sum(1 for _, _, library in found if library) >= 20
