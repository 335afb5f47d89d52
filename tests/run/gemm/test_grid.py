"""Grids are read, tuned, benchmarked and gone on with; the device is the emulated one."""

from __future__ import annotations

import csv
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kernelwright.errors import UserError
from kernelwright.experts.gemm import Product, Schedule, Warps, spell
from kernelwright.experts.gemm.table import read_rows
from kernelwright.languages.devices import cuda_target
from kernelwright.run.gemm import grid as grids
from kernelwright.run.gemm import results
from kernelwright.run.gemm.binaries import Binary, Point
from kernelwright.run.gemm.grid import COLUMNS, Grid, confirm, read_shapes, tune
from kernelwright.run.gemm.measuring import Measuring, Outcome
from kernelwright.run.gemm.measuring import Row as Measured
from kernelwright.run.gemm.served import serve
from kernelwright.types import replace

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
    monkeypatch.setattr(grids, "TUNING", ("torch",))
    monkeypatch.setattr(Measuring, "measure", functools.partialmethod(_torch_only, Measuring.measure))
    target, told = cuda_target("sm_90a"), list[str]()
    small, both = Grid(shapes=((16, 32, 32),), workers=1), Grid(shapes=((16, 32, 32), (32, 32, 64)), workers=1)
    with Measuring(WORKER, deadline_s=500.0) as device:
        tune(small, tmp_path, target, [device], told.append)
        with (tmp_path / grids.TUNED).open("a") as file:
            file.write("32,32,6")  # as a killed run leaves it
        none = Grid(shapes=both.shapes, workers=1, limit_s=-1.0)
        tune(none, tmp_path, target, [device], told.append)
        assert told[-1].startswith("1 shapes are left")
        tune(both, tmp_path, target, [device], told.append)
        done = confirm(both, tmp_path, target, [device], told.append)
        with pytest.raises(UserError, match="not tuned"):
            confirm(Grid(shapes=((64, 64, 64),)), tmp_path, target, [device], told.append)
    rows = list(csv.DictReader(done.read_text().splitlines()))
    assert [(row["m"], row["n"], row["k"]) for row in rows] == [("16", "32", "32"), ("32", "32", "64")]
    assert tuple(rows[0]) == COLUMNS
    for row in rows:
        assert "group=19" not in row["plan"]
        assert row["plan"].startswith("nk warps")
        assert 0 < float(row["ours_us"]) == float(row["confirmed"]) < float(row["torch_us"])
        assert row["cublas_us"] == row["cublaslt_exhaustive_us"] == ""
    table = list(read_rows(tmp_path / grids.TABLE))
    assert [(r.m, r.layout, r.plan.partition(" ")[0]) for r in table] == [
        (16, "kn", "vendor"), (32, "kn", "vendor"), (16, "nk", "warps"), (32, "nk", "warps"),
    ]  # fmt: skip
    assert {r.device for r in table} == {"emulated"}
    assert told[0].startswith("0 of 1")
    assert any(line.startswith("1 of 2") for line in told)
    names = [row["name"] for row in grids.rows_of(tmp_path / grids.BASELINES)]
    assert sorted(set(names)) == ["torch_kn", "torch_nk"]

    # Server mode on the same folder: torch's calls on the processor, since nothing of it is for this device.
    monkeypatch.setattr(
        "kernelwright.run.gemm.served.read_rows", lambda file: [replace(r, plan="vendor") for r in table]
    )
    server = serve(both, tmp_path, told.append, rounds=2, device="cpu")
    rows = grids.rows_of(server)
    assert [row["plan"] for row in rows] == ["vendor", "vendor"]
    assert all(float(row["ours_us"]) > 0 and float(row["torch_us"]) > 0 and not row["cublas_us"] for row in rows)
    page = results.write(tmp_path, tmp_path / "page", device="emulated", dtype="float16", shapes="grid", command="x")
    text = page.read_text()
    assert page.name == "hgemm-emulated.md"
    assert "2 of 2 shapes run a kernel of ours" in text
    assert "| all | torch |" in text
    assert {path.name for path in page.parent.iterdir()} == {
        "hgemm-emulated.md", "hgemm-emulated.svg", "hgemm-emulated-offline.csv", "hgemm-emulated-server.csv",
    }  # fmt: skip


class Fake(Measuring):
    """A device whose times are known beforehand, and that notes what it measured."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.device, self.did = {"name": name}, list[tuple[int, int, int]]()

    def measure(self, product: Product, points: Sequence[tuple[Point, Binary]], **_: object) -> Outcome:
        if product.m == 4096:
            raise RuntimeError("the device burns")
        self.did.append((product.m, product.n, product.k))
        vendor = 2.0 * max(product.m, 100) / 100
        rows = tuple(
            Measured(layout=p.product.layout, schedule=spell(p.schedule), us=vendor / 1.25 * (1 + n / 10))
            for n, (p, _) in enumerate(points)
        )
        names = ("torch", "cublas", "cublaslt_first", "cublaslt_tuned")
        times = tuple((f"{name}_{layout}", vendor) for name in names for layout in ("nk", "kn"))
        return Outcome(product=product, rows=rows, baselines=times)


def test_a_grid_is_shared_out_resumed_confirmed_and_reported_without_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def built(points: Sequence[Point], *_: object, **__: object) -> dict[Point, Binary]:
        return {point: Binary(path="any.cubin") for point in points}

    monkeypatch.setattr(grids, "build", built)
    monkeypatch.setattr(grids, "AHEAD", 3)
    shapes = tuple((m, n, 64) for m in (64, 128, 256) for n in (64, 128, 256, 512))
    grid, target, told = Grid(shapes=shapes, top=2), cuda_target("sm_90a"), list[str]()
    devices = [Fake("one kind"), Fake("one kind")]
    tune(replace(grid, shapes=shapes[:5]), tmp_path, target, devices, told.append)
    assert sorted(devices[0].did + devices[1].did) == sorted(shapes[:5])
    with pytest.raises(RuntimeError, match="burns"):
        tune(replace(grid, shapes=(*shapes[:7], (4096, 64, 64))), tmp_path, target, devices, told.append)
    tune(grid, tmp_path, target, devices, told.append)
    assert sorted(devices[0].did + devices[1].did) == sorted(shapes)  # nothing twice, nothing left out
    for device in devices:
        device.did.clear()
    done = confirm(grid, tmp_path, target, devices, told.append)
    assert sorted(devices[0].did + devices[1].did) == sorted(shapes)
    rows = grids.rows_of(done)
    assert {(int(r["m"]), int(r["n"]), int(r["k"])) for r in rows} == set(shapes)
    found = results.ratios(rows, "cublaslt_tuned_us")
    assert found is not None
    assert found.geometric == pytest.approx(1.25)
    assert found.least == pytest.approx(1.25)
    assert (found.wins, found.count) == (12, 12)
    page = results.write(tmp_path, tmp_path / "page", device="one kind", dtype="float16", shapes="grid", command="x")
    assert "12 of 12 shapes run a kernel of ours" in page.read_text()


def _torch_only(self: Measuring, measure: Any, *given: Any, **more: Any) -> Any:
    return measure(self, *given, **(more | {"baselines": ("torch",)}))


def test_rows_say_what_runs_and_what_it_takes() -> None:
    fast = Measured(layout="nk", schedule="direct", us=2.0)
    slow = Measured(layout="kn", schedule="warps", us=9.0)
    times = {
        "torch_kn": 4.0,
        "torch_nk": 3.0,
        "cublaslt_tuned_kn": 2.5,
        "cublaslt_tuned_nk": 2.2,
        "cublaslt_exhaustive_nk": 2.4,
    }
    outcome = Outcome(
        product=Product(m=64, n=64, k=64), rows=(fast, slow), baselines=tuple(times.items()),
        algorithms=(("cublaslt_tuned_kn", "1:00:0"),),
    )  # fmt: skip
    row = grids._row(outcome)
    assert (row["plan"], row["ours_us"], row["confirmed"]) == ("nk direct", "2.000", "2.000")
    assert (row["torch_us"], row["cublaslt_tuned_us"], row["cublaslt_exhaustive_us"]) == ("3.000", "2.200", "2.200")
    nk, kn = (grids.table_row(outcome, layout, "d") for layout in ("nk", "kn"))
    assert (nk.plan, nk.vendor_us, nk.algorithm) == ("direct", "2.200", "")
    assert (kn.plan, kn.ours_us, kn.vendor_us, kn.algorithm) == ("vendor", "9.000", "2.500", "1:00:0")
    lost = grids._row(replace(outcome, rows=(replace(fast, us=2.3),)))
    assert (lost["plan"], lost["ours_us"], lost["confirmed"]) == ("vendor", "2.300", "2.200")
    found = results.ratios([row, lost], "cublaslt_tuned_us")
    assert found is not None
    assert found.geometric == pytest.approx((1.1 * 1.0) ** 0.5)
    assert (found.wins, found.count) == (1, 2)
