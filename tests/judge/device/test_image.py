"""Cubins that are not whole never reach the driver, which would take its process with it."""

from __future__ import annotations

import random
import struct
import sys
from pathlib import Path

import pytest

from kernelwright.judge.device import driver, image

SOURCE = Path(driver.__file__).with_name("own_kernels.cu").read_text()
SECTIONS_AT, COUNT_AT = 40, 60


@pytest.fixture(scope="module", params=[80, 90, 100])
def built(request: pytest.FixtureRequest) -> tuple[bytes, int]:
    return driver.compile_own(SOURCE, request.param), request.param


def test_a_whole_cubin_fits_its_own_device_and_later_ones_of_its_generation(built: tuple[bytes, int]) -> None:
    blob, architecture = built
    assert image.fault(blob, architecture) is None
    assert image.fault(blob, architecture + 3) is None
    for other in (architecture - 10, architecture + 10, architecture - 1):
        found = image.fault(blob, other)
        assert found is not None
        assert found[0] == "architecture"


def test_the_compilers_version_in_the_header_is_no_fault(built: tuple[bytes, int]) -> None:
    blob, architecture = built
    older = bytearray(blob)
    struct.pack_into("<I", older, 20, 128)
    assert image.fault(bytes(older), architecture) is None


def test_whatever_is_cut_off_is_missed(built: tuple[bytes, int]) -> None:
    blob, architecture = built
    for length in (*range(0, len(blob), 37), *range(len(blob) - 64, len(blob))):
        found = image.fault(blob[:length], architecture)
        assert found is not None, length
        assert found[0] == "image"


@pytest.mark.parametrize("blob", [b"", b"this is no cubin" * 64, b"\x7fELF" + bytes(300), b"\x7fELF\x02\x01\x01" * 90])
def test_garbage_is_no_cubin(blob: bytes) -> None:
    found = image.fault(blob, 90)
    assert found is not None
    assert found[0] == "image"


def test_a_library_for_the_host_is_no_cubin() -> None:
    found = image.fault(Path(sys.executable).resolve().read_bytes(), 90)
    assert found is not None
    assert found[0] == "image"
    assert "not CUDA" in found[1]


def test_offsets_sizes_links_and_names_must_lie_within(built: tuple[bytes, int]) -> None:
    blob, architecture = built
    (table,) = struct.unpack_from("<Q", blob, SECTIONS_AT)
    (count,) = struct.unpack_from("<H", blob, COUNT_AT)
    for index in range(1, count):
        at = table + index * image.SECTION.size
        kind = struct.unpack_from("<I", blob, at + 4)[0]
        fields = [(0, "<I", 1 << 30), (40, "<I", 9999)]
        if kind != image.NOBITS:
            fields += [(24, "<Q", 1 << 40), (32, "<Q", 1 << 40)]
        for offset, form, number in fields:
            spoiled = bytearray(blob)
            struct.pack_into(form, spoiled, at + offset, number)
            found = image.fault(bytes(spoiled), architecture)
            assert found is not None, (index, offset)
            assert found[0] == "image"


def test_no_damage_of_headers_raises_anything(built: tuple[bytes, int]) -> None:
    blob, architecture = built
    draw = random.Random(architecture)
    (table,) = struct.unpack_from("<Q", blob, SECTIONS_AT)
    for _ in range(300):
        spoiled = bytearray(blob)
        for _ in range(draw.randrange(1, 5)):
            at = draw.randrange(64) if draw.random() < 0.3 else draw.randrange(table, len(blob))
            spoiled[at] = draw.randrange(256)
        found = image.fault(bytes(spoiled), architecture)
        assert found is None or found[0] in ("image", "architecture")
