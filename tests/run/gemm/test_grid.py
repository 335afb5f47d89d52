"""Grids are read, tuned, benchmarked and gone on with; the device is the emulated one."""

from __future__ import annotations

import csv
import functools
from pathlib import Path

import pytest

from kernelwright.errors import UserError
from kernelwright.experts.gemm import Product, Schedule, Warps
from kernelwright.languages.devices import cuda_target
from kernelwright.run.gemm import grid as grids
from kernelwright.run.gemm.grid import COLUMNS, Grid, confirm, read_shapes, tune
from kernelwright.run.gemm.measuring import Measuring

ROOT = Path(__file__).resolve().parents[3]
WORKER = "tests.run.gemm.emulated_worker"


def test_the_public_grid_has_a_thousand_shapes_smallest_first() -> None:
    shapes = read_shapes("grid")
    assert len(set(shapes)) == 1000
    assert shapes[0] == (64, 64, 64)
    assert shapes[-1] == (16384, 16384, 16384)


@pytest.mark.parametrize("text", ["1,2\n", "m,n,k\n1,2,x\n", "0,1,1\n"])
def test_lines_that_are_no_shape_are_named(text: str, tmp_path: Path) -> None:
    file = tmp_path / "shapes.csv"
    file.write_text(text)
    with pytest.raises(UserError, match=r"shapes\.csv:\d"):
        read_shapes(str(file))
    with pytest.raises(UserError, match="grid"):
        read_shapes(str(tmp_path / "nothing"))


def test_tuning_goes_on_and_bench_confirms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}:{ROOT}")

    def few(product: Product, count: int) -> tuple[Schedule, ...]:
        # One that is right, and one that the emulated device makes wrong.
        tile = Warps(bm=16, bn=32, bk=32, warps_m=1, warps_n=1, stages=2)
        wrong = Warps(bm=16, bn=32, bk=32, warps_m=1, warps_n=1, stages=2, group=19)
        return (tile, wrong) if product.layout == "nk" else ()

    monkeypatch.setattr(grids, "ranked", few)
    monkeypatch.setattr(Measuring, "measure", functools.partialmethod(Measuring.measure, baselines=("torch",)))
    target, told = cuda_target("sm_90a"), list[str]()
    small, both = Grid(shapes=((16, 32, 32),), workers=1), Grid(shapes=((16, 32, 32), (32, 32, 64)), workers=1)
    with Measuring(WORKER, deadline_s=500.0) as device:
        tune(small, tmp_path, target, device, told.append)
        with (tmp_path / grids.TUNED).open("a") as file:
            file.write("32,32,6")  # as a killed run leaves it
        tune(both, tmp_path, target, device, told.append)
        done = confirm(both, tmp_path, target, device, told.append)
        with pytest.raises(UserError, match="not tuned"):
            confirm(Grid(shapes=((64, 64, 64),)), tmp_path, target, device, told.append)
    rows = list(csv.DictReader(done.read_text().splitlines()))
    assert [(row["m"], row["n"], row["k"]) for row in rows] == [("16", "32", "32"), ("32", "32", "64")]
    assert tuple(rows[0]) == COLUMNS
    for row in rows:
        assert "group=19" not in row["plan"]
        assert row["plan"].partition(" ")[0] in ("nk", "kn")
        assert float(row["ours_us"]) == float(row["confirmed"]) > 0
        assert row["cublas_us"] == row["cublaslt_exhaustive_us"] == ""
    assert told[0].startswith("0 of 1")
    assert any(line.startswith("1 of 2") for line in told)
