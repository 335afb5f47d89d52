"""NumPy by another import: without a device NumPy itself, with a library that lacks things NumPy for those."""

from __future__ import annotations

import types
import warnings
from typing import Any

import numpy
import pytest
import torch

import kernelwright.numpy as np
from benchmarks import numpy_testing
from kernelwright.numpy.libraries import FallbackWarning, Namespace, array_of


class Array(numpy.ndarray):
    """A stand-in for a device library's array."""


def library() -> Any:
    """Returns a library that has little: sqrt, an add that refuses, a dot that takes two arguments only."""
    made: Any = types.ModuleType("pretend")

    def refuses(*_: Any, **__: Any) -> Any:
        raise NotImplementedError("not on this device")

    made.ndarray = Array
    made.asarray = lambda item, dtype=None: numpy.asarray(item, dtype=dtype).view(Array)
    made.sqrt = lambda x: numpy.sqrt(x).view(Array)
    made.add = refuses
    made.dot = lambda a, b: numpy.dot(a, b)
    made.float32 = numpy.float32
    made.pi = 3.0
    return made


@pytest.fixture
def space(monkeypatch: pytest.MonkeyPatch) -> Namespace:
    import sys

    made = library()
    monkeypatch.setitem(sys.modules, "pretend", made)
    return Namespace(made)


def test_without_a_device_it_is_numpy() -> None:
    assert np.backend().startswith("numpy (")
    assert np.sqrt is numpy.sqrt
    assert np.float32 is numpy.float32
    x = np.arange(12.0).reshape(3, 4)
    assert np.array_equal(np.linalg.norm(x, axis=1), numpy.sqrt((x * x).sum(axis=1)))
    assert np.allclose(np.fft.ifft(np.fft.fft(x)).real, x)
    assert np.random.default_rng(1).random() == numpy.random.default_rng(1).random()
    assert np.fallbacks() == {}
    assert "linspace" in dir(np)
    assert all(hasattr(np, name) for name in dir(np))
    with pytest.raises(AttributeError):
        _ = np.nothing_like_this


def test_memory_is_shared_both_ways() -> None:
    tensor = torch.zeros(3)
    array = np.asarray(tensor)
    array[1] = 5
    assert tensor[1] == 5
    assert torch.utils.dlpack.from_dlpack(np.from_dlpack(tensor))[1] == 5
    assert np.asarray([1, 2], dtype=np.float32).dtype == numpy.float32
    with pytest.raises((TypeError, AttributeError)):
        np.from_dlpack([1, 2])


def test_what_a_library_lacks_goes_to_numpy_and_is_counted(space: Namespace) -> None:
    x = space.asarray([1.0, 4.0])
    assert isinstance(space.sqrt(x), Array)
    assert space.pi == 3.0
    assert space.newaxis is None
    with pytest.warns(FallbackWarning, match=r"numpy\.add runs in NumPy, with copies: not on this device"):
        made = space.add(x, 1)
    assert isinstance(made, Array)
    assert made.tolist() == [2.0, 5.0]
    with pytest.warns(FallbackWarning, match="does not have it"):
        assert space.cbrt(space.asarray([8.0])).tolist() == [2.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        space.add(x, 2)  # said once, counted always
    assert space.counts == {"add": 2, "cbrt": 1}
    with pytest.warns(FallbackWarning):
        assert space.linalg.norm(x) == pytest.approx(17**0.5)


def test_a_call_that_is_wrong_for_numpy_too_is_no_fallback(space: Namespace) -> None:
    with pytest.raises(TypeError):
        space.dot(space.asarray([1.0]))
    assert space.counts == {}


def test_an_array_of_another_library_is_taken_by_dlpack() -> None:
    tensor = torch.arange(4)
    shared = array_of(numpy, tensor)
    assert shared.ctypes.data == tensor.data_ptr()
    assert array_of(numpy, tensor, dtype=numpy.float64).dtype == numpy.float64


def test_ufuncs_keep_their_methods_and_facts(space: Namespace) -> None:
    with pytest.warns(FallbackWarning, match=r"numpy\.add\.reduce runs in NumPy"):
        made = space.add.reduce(space.asarray([[1.0, 2.0], [3.0, 4.0]]))
    assert isinstance(made, Array)
    assert made.tolist() == [4.0, 6.0]
    assert space.add.nin == 2
    assert space.add == numpy.add
    assert space.add in {numpy.add}
    assert space.add != numpy.subtract
    assert space.add.identity == 0
    assert space.add.__name__ == "add"
    assert space.counts == {"add.reduce": 1}
    with pytest.raises(AttributeError):
        _ = space.add.nothing


def test_submodules_are_imported_by_their_own_names() -> None:
    import kernelwright.numpy.fft as fourier
    from kernelwright.numpy.linalg import norm
    from kernelwright.numpy.random import default_rng

    x = default_rng(0).random(8)
    assert norm(x) == numpy.linalg.norm(x)
    assert numpy.array_equal(fourier.fft(x), numpy.fft.fft(x))
    assert "ifft" in dir(fourier)
    with pytest.raises(AttributeError):
        _ = fourier.nothing_like_this


def test_the_suites_assertions_see_arrays_of_a_device() -> None:
    class OnDevice:
        __cuda_array_interface__: dict[str, object] = {}  # noqa: RUF012

        def __init__(self, *values: float) -> None:
            self._values = values

        def get(self) -> numpy.ndarray:
            return numpy.array(self._values)

    testing: Any = numpy_testing
    testing.assert_equal(OnDevice(1, 2), [1, 2])
    testing.assert_allclose([OnDevice(1, 2)], [OnDevice(1, 2 + 1e-9)])
    with pytest.raises(AssertionError):
        testing.assert_array_equal(OnDevice(1, 2), OnDevice(1, 3))
    given = OnDevice(1)
    testing.assert_raises(ZeroDivisionError, lambda item: 1 / (item is not given), given)  # as it is
