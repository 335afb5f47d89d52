"""Tuned tables: written and read, near sizes found, what is no table refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.errors import UserError
from kernelwright.experts.gemm import Direct, Hopper, Product, Warps, spell
from kernelwright.experts.gemm.table import PACKAGED, Row, Table, read_rows, slug, table_of, write_rows
from kernelwright.types import replace

ROW = Row(
    device="NVIDIA H200", dtype="float16", layout="nk", m=64, n=64, k=64, plan=spell(Direct(depth=1, warps=1)),
    ours_us="1.5", vendor_us="2.1",
)  # fmt: skip
BIG = replace(ROW, m=4096, n=4096, k=4096, plan=spell(Hopper(bn=256, stages=3)))
LOST = replace(ROW, m=64, n=64, k=4096, plan="vendor", algorithm="130100:00:0")


def test_tables_are_read_as_they_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    file = tmp_path / "gemm" / f"{slug('NVIDIA H200')}.csv"
    assert file.name == "nvidia-h200.csv"
    write_rows(file, [BIG, ROW, LOST])
    assert sorted(read_rows(file), key=repr) == sorted([BIG, ROW, LOST], key=repr)
    table_of.cache_clear()
    table = table_of("NVIDIA H200")
    assert table.find(Product(m=4096, n=4096, k=4096)) == BIG
    assert table.find(Product(m=4096, n=4096, k=4096, layout="kn")) is None
    assert table_of("another").find(Product(m=64, n=64, k=64)) is None
    table_of.cache_clear()
    file.write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match="no tuned table"):
        list(read_rows(file))
    assert list(read_rows(tmp_path / "nothing.csv")) == []


def test_near_sizes_lend_their_plan_where_it_is_possible() -> None:
    table = Table([ROW, BIG, LOST])
    assert table.schedule(Product(m=80, n=64, k=72)) == Direct(depth=1, warps=1)
    assert table.schedule(Product(m=4000, n=4096, k=4096)) == Hopper(bn=256, stages=3)
    assert table.schedule(Product(m=64, n=64, k=3000)) is None  # the nearest one lost
    assert table.schedule(Product(m=500, n=500, k=500)) is None  # nothing near
    assert table.schedule(Product(m=80, n=64, k=75)) is None  # not a multiple of 8: no direct kernel
    both = Table([ROW, replace(ROW, n=128, plan=spell(Warps(bm=32, bn=32)))])
    assert both.schedule(Product(m=80, n=64, k=75)) == Warps(bm=32, bn=32)


def test_tables_of_the_package_can_be_read() -> None:
    for file in PACKAGED.glob("*.csv"):
        rows = list(read_rows(file))
        assert {slug(row.device) for row in rows} == {file.stem}
