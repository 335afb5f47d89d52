from __future__ import annotations

import pytest

from kernelwright.analysis.addresses import accesses, conflict_ways, sectors, width_bytes
from kernelwright.analysis.sass import parse

HEAD = "//--------------------- .text.k  --------------------------\n"


def code(*instructions: str) -> str:
    return HEAD + "\n".join(f"        /*{16 * n:04x}*/  {text} ;" for n, text in enumerate(instructions))


def ways(*instructions: str) -> list[int | None]:
    return [access.conflict_ways for access in accesses(parse(code(*instructions))["k"])]


@pytest.mark.parametrize(
    ("stride", "width", "expected"),
    [(4, 4, 1), (0, 4, 1), (8, 4, 2), (16, 4, 4), (128, 4, 32), (132, 4, 1), (16, 16, 1), (32, 16, 2), (8, 8, 1),
     (64, 16, 4), (2, 2, 1), (256, 8, 16)],
)  # fmt: skip
def test_conflicts_by_stride(stride: int, width: int, expected: int) -> None:
    assert conflict_ways(tuple(stride * lane for lane in range(32)), width) == expected


@pytest.mark.parametrize(
    ("stride", "width", "expected"), [(4, 4, 4), (16, 16, 16), (0, 4, 1), (128, 4, 32), (8, 4, 8), (2, 2, 2)]
)
def test_sectors_by_stride(stride: int, width: int, expected: int) -> None:
    assert sectors(tuple(stride * lane for lane in range(32)), width) == expected


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [("LDG.E", 4), ("LDG.E.128", 16), ("LDS.U.64", 8), ("LDG.E.U16", 2), ("STS.U8", 1), ("LDG.E.64.CONSTANT", 8)],
)
def test_widths(opcode: str, expected: int) -> None:
    assert width_bytes(opcode) == expected


def test_addresses_are_followed_through_shifts_sums_and_products() -> None:
    assert ways("S2R R0, SR_TID.X", "SHF.L.U32 R1, R0, 0x2, RZ", "STS [R1+UR4], R2") == [1]
    assert ways("S2R R0, SR_TID.X", "LEA R1, R0.reuse, UR4, 0x7", "LDS R2, [R1+0x10]") == [32]
    assert ways("S2R R0, SR_TID.X", "IMAD R1, R0, 0x84, RZ", "LDS R2, [R1]") == [1]
    assert ways("S2R R0, SR_TID.X", "IMAD.SHL.U32 R1, R0, 0x8, RZ", "LDS R2, [R1]") == [2]
    assert ways("S2R R0, SR_TID.X", "LOP3.LUT R1, R0, 0x3, RZ, 0xc0, !PT", "LDS R2, [R1.X16]") == [1]
    assert ways("S2R R0, SR_TID.X", "SHF.R.U32.HI R1, RZ, 0x3, R0", "LDS R2, [R0.X4]") == [1]


def test_what_cannot_be_known_is_not_guessed() -> None:
    assert ways("S2R R0, SR_TID.X", "LDG.E R1, desc[UR6][R4.64]", "LDS R2, [R1]") == [None, None]
    assert ways("S2R R0, SR_TID.X", "LDC R3, c[0x0][0x210]", "IMAD R1, R0, R3, RZ", "LDS R2, [R1]") == [None]


def test_a_base_that_all_lanes_share_costs_nothing() -> None:
    found = accesses(
        parse(
            code(
                "S2R R0, SR_TID.X", "LDC.64 R2, c[0x0][0x210]", "S2R R7, SR_CTAID.X", "IMAD R0, R7, 0x100, R0",
                "IMAD.WIDE R2, R0, 0x4, R2", "LDG.E R5, desc[UR4][R2.64]", "IMAD.WIDE R8, R0, 0x80, R2",
                "STG.E desc[UR4][R8.64], R5",
            )
        )["k"]
    )  # fmt: skip
    assert [(access.store, access.sectors, access.fewest_sectors) for access in found] == [(False, 4, 4), (True, 32, 4)]
