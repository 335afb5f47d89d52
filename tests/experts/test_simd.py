from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from .conftest import compile_library

UNARY = {
    # name: (float64 truth, largest error in float32 units in the last place)
    "exp": (torch.exp, 1.05),
    "expm1": (torch.expm1, 2.0),
    "log": (torch.log, 1.0),
    "log1p": (torch.log1p, 2.0),
    "tanh": (torch.tanh, 2.0),
    "sigmoid": (torch.sigmoid, 2.5),
    "erf": (torch.erf, 1.5),
    "sin": (torch.sin, 1.5),
    "cos": (torch.cos, 1.5),
    "sqrt": (torch.sqrt, 0.5),
    "rsqrt": (torch.rsqrt, 1.5),
    "reciprocal": (torch.reciprocal, 0.5),
    "round_even": (torch.round, 0.0),
    "floor": (torch.floor, 0.0),
    "ceil": (torch.ceil, 0.0),
    "trunc": (torch.trunc, 0.0),
    "abs": (torch.abs, 0.0),
    "sign": (torch.sign, 0.0),
    "tan": (torch.tan, 1.5),
    "log2": (torch.log2, 1.5),
}
WIDTHS = (16, 8, 4)
BINARY = {
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "copysign": torch.copysign,
    "pow": torch.pow,
    "fmod": torch.fmod,
}


HEAD = """
#include "simd.hpp"
using namespace kw;
#define LOOP(NAME, N, FROM, TO, CALL)                                                    \\
    extern "C" void NAME(const FROM* x, TO* y, long count) {                             \\
        for (long i = 0; i < count; i += N) {                                            \\
            auto v = load_part<FROM, N>(x + i, count - i, FROM(1));                      \\
            store_part(y + i, CALL(v), count - i);                                       \\
        }                                                                                \\
    }
#define PAIRS(NAME, N, CALL)                                                             \\
    extern "C" void NAME(const float* x, const float* z, float* y, long count) {         \\
        for (long i = 0; i < count; i += N) {                                            \\
            auto v = load_part<float, N>(x + i, count - i, 1.0f);                        \\
            auto w = load_part<float, N>(z + i, count - i, 1.0f);                        \\
            store_part(y + i, CALL(v, w), count - i);                                    \\
        }                                                                                \\
    }
#define ACROSS(NAME, N, CALL) extern "C" float NAME(const float* x) { return CALL(load<float, N>(x)); }
"""
MIXED = """
extern "C" void select_N(const float* x, float* y, const int* at) {
    auto v = gather(x, load<int32_t, N>(at));
    store(y, select(to_mask(v > 0.0f), v, broadcast<vec<float, N>>(-1.0f)));
    stream(y + N, v);
    stream_fence();
}
extern "C" void double_N(const double* x, double* y) {
    auto v = load<double, N>(x);
    store(y, kw::exp(kw::tanh(v)) + kw::erf(kw::sin(v)) + kw::sqrt(kw::abs(v)) + kw::floor(v) + kw::sigmoid(v));
}
"""


def harness() -> str:
    """Returns one extern "C" function for each operation and width, and the conversions and lane operations."""
    out = [HEAD]
    for n in WIDTHS:
        out += [f"LOOP({name}_{n}, {n}, float, float, kw::{name})" for name in UNARY]
        out += [f"PAIRS({name}_{n}, {n}, kw::{name})" for name in BINARY]
        out += [f"LOOP(to_{name}_{n}, {n}, float, uint16_t, to_{name})" for name in ("bf16", "fp16")]
        out += [f"LOOP(from_{name}_{n}, {n}, uint16_t, float, from_{name})" for name in ("bf16", "fp16")]
        out += [f"ACROSS({name}_{n}, {n}, kw::{name})" for name in ("sum", "product", "largest", "smallest")]
        out.append(MIXED.replace("_N", f"_{n}").replace("N>", f"{n}>").replace("+ N", f"+ {n}"))
    return "\n".join(out)


@pytest.fixture(scope="module")
def library(build_folder: Path) -> ctypes.CDLL:
    return compile_library(build_folder, harness(), name="simd", optimise="-O2")


@pytest.fixture(scope="module")
def values() -> np.ndarray:
    """Random bit patterns (every exponent, NaN, subnormals), dense ranges where functions bend, and edge cases."""
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 2**32, 60_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    dense = [rng.uniform(-r, r, 20_000) for r in (1e-4, 0.1, 1.0, 3.0, 10.0, 90.0, 110.0, 3e4)]
    near_one = 1 + rng.uniform(-1e-3, 1e-3, 5000)
    multiples = np.arange(-2000, 2000) * (np.pi / 2)
    edges = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1.0,
        -1.0,
        0.5,
        1.5,
        2.5,
        -0.5,
        88.72283,
        88.72284,
        -87.33655,
        -103.97,
        -103.98,
        -104.5,
    ]
    edges += [
        1e-45,
        -1e-45,
        1.17549435e-38,
        1.1e-38,
        3.4028235e38,
        -3.4028235e38,
        8388608.0,
        8388607.5,
        4194304.5,
        0.625,
        0.9277344,
    ]
    with np.errstate(all="ignore"):
        return np.concatenate([bits, *dense, near_one, multiples, edges]).astype(np.float32)


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def ulps(got: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Returns |got - truth| in float32 units in the last place of the truth; the same NaN or infinity is 0."""
    with np.errstate(all="ignore"):
        rounded = truth.astype(np.float32)
        unit = np.spacing(np.minimum(np.abs(rounded), np.float32(3.4e38))).astype(np.float64)
        error = np.abs(got.astype(np.float64) - truth) / unit
        same = (got == rounded) | (np.isnan(got) & np.isnan(truth))
        # Beyond the largest float an infinity is right, and so is the reverse within half a unit.
        return np.where(
            same, np.where(np.isfinite(error), np.minimum(error, 0.5), 0.0), np.where(np.isnan(error), np.inf, error)
        )


@pytest.mark.parametrize("n", WIDTHS)
@pytest.mark.parametrize("name", list(UNARY))
def test_unary_within_bound(library: ctypes.CDLL, values: np.ndarray, name: str, n: int) -> None:
    truth_of, bound = UNARY[name]
    got = np.full_like(values, 77.0)
    getattr(library, f"{name}_{n}")(pointer(values), pointer(got), ctypes.c_long(len(values)))
    truth = truth_of(torch.from_numpy(values).double()).numpy()
    if name == "sigmoid":
        # 1 / (1 + exp(-x)) is 0 where exp overflows, as PyTorch's is; the truth is then below the normal numbers.
        truth = np.where(np.abs(truth) < 1.2e-38, np.where(np.abs(got) < 1.2e-38, got, truth), truth)
    error = ulps(got, truth)
    worst = int(np.argmax(error))
    assert error[worst] <= bound, (
        f"{name}({values[worst]!r}) = {got[worst]!r}, truth {truth[worst]!r}: {error[worst]:.2f} ulp"
    )
    assert np.array_equal(np.isnan(got), np.isnan(truth))
    if bound == 0.0:
        assert np.array_equal(np.signbit(got)[~np.isnan(got)], np.signbit(truth)[~np.isnan(got)]) or name == "sign"


@pytest.mark.parametrize("n", WIDTHS)
@pytest.mark.parametrize("name", list(BINARY))
def test_binary_as_torch(library: ctypes.CDLL, values: np.ndarray, name: str, n: int) -> None:
    truth_of: Any = BINARY[name]
    rng = np.random.default_rng(3)
    x, z = values[-50_000:], rng.permutation(values[-50_000:])
    got = np.empty_like(x)
    getattr(library, f"{name}_{n}")(pointer(x), pointer(z), pointer(got), ctypes.c_long(len(x)))
    truth = truth_of(torch.from_numpy(x).double(), torch.from_numpy(z).double()).numpy()
    assert ulps(got, truth).max() <= (1.0 if name == "pow" else 0.0)


@pytest.mark.parametrize("n", WIDTHS)
@pytest.mark.parametrize(("name", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_half_precisions_bit_for_bit(
    library: ctypes.CDLL, values: np.ndarray, name: str, dtype: torch.dtype, n: int
) -> None:
    every = np.arange(65536).astype(np.uint16)
    wide = np.empty(65536, np.float32)
    getattr(library, f"from_{name}_{n}")(pointer(every), pointer(wide), ctypes.c_long(65536))
    expected = torch.from_numpy(every.view(np.int16)).view(dtype).float().numpy()
    assert np.array_equal(wide, expected, equal_nan=True)
    with np.errstate(all="ignore"):
        around = np.concatenate([values, wide, np.nextafter(wide, np.float32(0)), (wide[:-1] + wide[1:]) / 2])
    narrow = np.empty(len(around), np.uint16)
    getattr(library, f"to_{name}_{n}")(pointer(around), pointer(narrow), ctypes.c_long(len(around)))
    truth = torch.from_numpy(around).to(dtype)
    got = torch.from_numpy(narrow.view(np.int16)).view(dtype)
    assert torch.equal(got.isnan(), truth.isnan())
    bits = truth.view(torch.int16).numpy().view(np.uint16)
    assert np.array_equal(narrow[~truth.isnan().numpy()], bits[~truth.isnan().numpy()])


@pytest.mark.parametrize("n", WIDTHS)
def test_across_lanes(library: ctypes.CDLL, n: int) -> None:
    x = np.arange(1, n + 1, dtype=np.float32) / 4
    truths = {"sum": x.sum(), "product": x.prod(), "largest": x.max(), "smallest": x.min()}
    for name, truth in truths.items():
        function = getattr(library, f"{name}_{n}")
        function.restype = ctypes.c_float
        assert function(pointer(x)) == pytest.approx(float(truth), rel=1e-6)
    for name in ("largest", "smallest"):
        for lane in range(n):
            y = x.copy()
            y[lane] = np.nan
            assert np.isnan(getattr(library, f"{name}_{n}")(pointer(y)))


@pytest.mark.parametrize("n", WIDTHS)
def test_select_gather_stream(library: ctypes.CDLL, n: int) -> None:
    x = np.where(np.arange(64) % 3 == 0, -1, 1) * np.arange(64, dtype=np.float32)
    x = x.astype(np.float32)
    at = (np.arange(n, dtype=np.int32) * 7 + 3) % 64
    raw = np.empty(64 + 2 * n, np.float32)
    offset = (-raw.ctypes.data % 64) // 4
    y = raw[offset : offset + 2 * n]
    getattr(library, f"select_{n}")(pointer(x), pointer(y), pointer(at))
    assert np.array_equal(y[n:], x[at])
    assert np.array_equal(y[:n], np.where(x[at] > 0, x[at], -1))


@pytest.mark.parametrize("n", WIDTHS)
def test_double_is_exact_enough(library: ctypes.CDLL, n: int) -> None:
    x = torch.linspace(-3.3, 4.1, n, dtype=torch.float64)
    y = np.empty(n)
    getattr(library, f"double_{n}")(pointer(x.numpy()), pointer(y))
    truth = x.tanh().exp() + x.sin().erf() + x.abs().sqrt() + x.floor() + x.sigmoid()
    assert np.allclose(y, truth.numpy(), rtol=1e-14, atol=1e-15)
