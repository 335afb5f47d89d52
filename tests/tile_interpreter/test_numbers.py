# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""What the interpreter computes, against NumPy in float64 and against the formats' own definitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cuda.tile as ct
import numpy as np
import pytest
import torch

from kernelwright.tile_interpreter import Typed, dtypes, interpret

RANDOM = np.random.default_rng(7)
WIDE = (RANDOM.standard_normal(4096) * np.exp(RANDOM.uniform(-30, 30, 4096))).astype(np.float32)


@pytest.mark.parametrize(
    ("dtype", "theirs"),
    [(ct.bfloat16, torch.bfloat16), (ct.float8_e5m2, torch.float8_e5m2), (ct.float8_e4m3fn, torch.float8_e4m3fn)],
)
def test_rounding_agrees_with_torch(dtype: Any, theirs: torch.dtype) -> None:
    """Same values where torch does not saturate or overflow; codes survive a round trip."""
    limit = dtypes.FORMATS[dtype].largest
    values = WIDE[np.abs(WIDE) < limit / 2]
    wanted = torch.from_numpy(values).to(theirs).to(torch.float32).numpy()
    found = dtypes.round_to(values, dtype)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(dtypes.decode(dtypes.encode(found, dtype), dtype), found)


def test_tfloat32_keeps_ten_bits() -> None:
    found = dtypes.round_to(WIDE, ct.tfloat32).astype(np.float64)
    assert np.abs(found / WIDE.astype(np.float64) - 1).max() <= 2.0**-11
    assert not (found.astype(np.float32).view(np.uint32) & 0x1FFF).any()


def test_eight_bit_floats_saturate() -> None:
    given = np.array([1e9, -1e9, np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(dtypes.round_to(given, ct.float8_e4m3fn), [448, -448, 448, np.nan])
    np.testing.assert_array_equal(dtypes.round_to(given, ct.float8_e5m2), [57344, -57344, 57344, np.nan])


def test_floats_become_whole_numbers_towards_zero() -> None:
    given = np.array([1.9, -1.9, 3e9, -3e9, np.nan], np.float32)
    np.testing.assert_array_equal(dtypes.round_to(given, ct.int32), [1, -1, 2**31 - 1, -(2**31), 0])


def kernel_of(operation: Callable[..., Any]) -> Any:
    """A kernel that stores operation(x, y) of two whole arrays."""

    @ct.kernel
    def apply(x, y, out, shape: ct.Constant[tuple[int, ...]], to: ct.Constant[tuple[int, ...]]):
        zero = (0,) * len(shape)
        result = operation(ct.load(x, zero, shape=shape), ct.load(y, zero, shape=shape))
        ct.store(out, (0,) * len(to), tile=result.astype(out.dtype))

    return apply


X = RANDOM.standard_normal((8, 16)).astype(np.float32)
Y = RANDOM.uniform(0.5, 2, (8, 16)).astype(np.float32)
CASES: list[tuple[str, Callable[..., Any], Callable[..., Any]]] = [
    ("arithmetic", lambda x, y: (x + y) * x - x / y, lambda x, y: (x + y) * x - x / y),
    ("reflected", lambda x, y: 2 - x + 3 * y, lambda x, y: 2 - x + 3 * y),
    ("powers", lambda x, y: y**x, lambda x, y: y**x),
    ("floor", lambda x, y: ct.floor(x) + ct.ceil(y), lambda x, y: np.floor(x) + np.ceil(y)),
    ("modulo", lambda x, y: x % y + x // y, lambda x, y: x % y + np.floor(x / y)),
    ("exponentials", lambda x, y: ct.exp(x) + ct.exp2(x) + ct.log(y), lambda x, y: np.exp(x) + np.exp2(x) + np.log(y)),
    ("roots", lambda x, y: ct.sqrt(y) + ct.rsqrt(y), lambda x, y: np.sqrt(y) + 1 / np.sqrt(y)),
    ("circular", lambda x, y: ct.sin(x) + ct.cos(x) + ct.tanh(x), lambda x, y: np.sin(x) + np.cos(x) + np.tanh(x)),
    ("extremes", lambda x, y: ct.maximum(x, y) - min(x, y), lambda x, y: np.maximum(x, y) - np.minimum(x, y)),
    ("choice", lambda x, y: ct.where(x > 0, x, -y), lambda x, y: np.where(x > 0, x, -y)),
    ("negation", lambda x, y: abs(-x) + ct.abs(y), lambda x, y: np.abs(x) + np.abs(y)),
    ("row sums", lambda x, y: x + ct.sum(y, axis=1, keepdims=True), lambda x, y: x + y.sum(1, keepdims=True)),
    ("column maxima", lambda x, y: x * ct.max(x, axis=0)[None, :], lambda x, y: x * x.max(0)[None, :]),
    ("products", lambda x, y: x * ct.prod(y, axis=1, keepdims=True), lambda x, y: x * y.prod(1, keepdims=True)),
    ("scan", lambda x, y: ct.cumsum(x, axis=1), lambda x, y: np.cumsum(x, 1)),
    ("scan back", lambda x, y: ct.cumsum(x, 0, reverse=True), lambda x, y: np.cumsum(x[::-1], 0)[::-1]),
    ("own scan", lambda x, y: ct.scan(y, 1, lambda a, b: a * b, 1.0), lambda x, y: np.cumprod(y, 1)),
    ("own fold", lambda x, y: x + ct.reduce(y, 0, lambda a, b: a + b, 0.0), lambda x, y: x + y.sum(0)),
    ("places", lambda x, y: ct.argmax(x, axis=1, keepdims=True) + 0 * x,
     lambda x, y: x.argmax(1)[:, None] + 0 * x),
    ("shapes", lambda x, y: ct.permute(x.reshape((2, 4, 16)), (0, 2, 1)).reshape((8, 16)),
     lambda x, y: x.reshape(2, 4, 16).transpose(0, 2, 1).reshape(8, 16)),
    ("halves", lambda x, y: ct.cat((ct.extract(x, (0, 1), (8, 8)), ct.extract(x, (0, 0), (8, 8))), 1),
     lambda x, y: np.concatenate([x[:, 8:], x[:, :8]], 1)),
    ("insertion", lambda x, y: ct.insert(x, (1, 0), ct.zeros((4, 16), dtype=ct.float32)),
     lambda x, y: np.concatenate([x[:4], 0 * x[4:]])),
    ("product", lambda x, y: ct.matmul(x, ct.transpose(y)).reshape((4, 16)), lambda x, y: (x @ y.T).reshape(4, 16)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "theirs", "ours"), CASES, ids=[case[0] for case in CASES])
def test_operations_agree_with_float64(name: str, theirs: Callable[..., Any], ours: Callable[..., Any]) -> None:
    truth = ours(X.astype(np.float64), Y.astype(np.float64))
    out = np.zeros(truth.shape, np.float32)
    found = interpret(kernel_of(theirs), 1, (X, Y, out, X.shape, truth.shape))
    assert found.clean, str(found)
    np.testing.assert_allclose(out, truth, rtol=3e-6, atol=3e-6 * np.abs(truth).max())


def test_whole_numbers_wrap_and_shift() -> None:
    x = RANDOM.integers(-(2**31), 2**31, 16, np.int32)
    y = RANDOM.integers(1, 5, 16, np.int32)
    out = np.zeros(16, np.int32)
    with np.errstate(over="ignore"):
        truth = (x * y + (x >> y) ^ (x & 255)) - (x // y) * (x % y)
    operation = lambda x, y: (x * y + (x >> y) ^ (x & 255)) - (x // y) * (x % y)  # noqa: E731
    assert interpret(kernel_of(operation), 1, (x, y, out, (16,), (16,))).clean
    np.testing.assert_array_equal(out, truth)


@pytest.mark.parametrize("dtype", [ct.bfloat16, ct.float8_e4m3fn])
def test_products_of_narrow_floats_use_their_values(dtype: Any) -> None:
    """The bits of an array are read as its dtype, and the sum is that of the values."""

    @ct.kernel
    def product(x, y, out):
        a, b = ct.load(x, (0, 0), shape=(8, 16)), ct.load(y, (0, 0), shape=(16, 8))
        ct.store(out, (0, 0), tile=ct.mma(a, b, ct.zeros((8, 8), dtype=ct.float32)))

    values = [dtypes.round_to(RANDOM.standard_normal(shape), dtype) for shape in ((8, 16), (16, 8))]
    out = np.zeros((8, 8), np.float32)
    arguments = [Typed(dtypes.encode(one, dtype), dtype) for one in values]
    assert interpret(product, 1, (*arguments, out)).clean
    truth = values[0].astype(np.float64) @ values[1].astype(np.float64)
    np.testing.assert_allclose(out, truth, rtol=1e-6, atol=1e-6)


def test_torch_tensors_are_written_in_place() -> None:
    @ct.kernel
    def double(x):
        ct.store(x, (0,), tile=ct.load(x, (0,), shape=(4,)) * 2)

    given = torch.arange(4, dtype=torch.bfloat16)
    assert interpret(double, 1, (given,)).clean
    assert given.tolist() == [0, 2, 4, 6]


def test_loop_numbers_are_scalars_and_static_ones_are_constants() -> None:
    @ct.kernel
    def loops(out, N: ct.Constant[int]):
        total = ct.zeros((1,), dtype=ct.int32)
        for i in range(N):
            total = total + i
        for j in ct.static_iter(range(N)):
            total = total + ct.full((2**j,), j, dtype=ct.int32).reshape((2**j,)).extract((0,), (1,))
        ct.store(out, (0,), tile=total)

    out = np.zeros(1, np.int32)
    found = interpret(loops, 1, (out, 4))
    assert found.clean, str(found)
    assert out[0] == 12


def test_views_and_slices() -> None:
    @ct.kernel
    def pieces(x, out):
        part = x.slice(0, 2, 8)
        view = part.tiled_view((4,), padding_mode=ct.PaddingMode.ZERO, traversal_steps=(2,))
        target = out.tiled_view((4,))
        for i in range(view.num_tiles(0)):
            target.store((i,), view.load((i,)))

    x, out = np.arange(10, dtype=np.float32), np.zeros(12, np.float32)
    found = interpret(pieces, 1, (x, out))
    assert found.clean, str(found)
    np.testing.assert_array_equal(out, [2, 3, 4, 5, 4, 5, 6, 7, 6, 7, 0, 0])
