"""cuBLASLt as its best user calls it: every algorithm that its heuristic returns, with a sound workspace.

Over ctypes on the library that torch has loaded; matrices are row-major here, so that the library sees the transposed
product. Enumerations are those of cublasLt.h (CUDA 12 and 13).
Not here: which of the algorithms is fastest, which the caller measures.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import torch

from kernelwright.errors import KernelwrightError

NAMES = ("libcublasLt.so.13", "libcublasLt.so.12")
WORKSPACE_BYTES = 32 << 20
"""What NVIDIA asks for on Hopper; a workspace of no bytes would forbid split-K."""
ASKED = 100
COMPUTE_32F, R_32F = 68, 0
DATA_TYPES = {torch.float16: 2, torch.bfloat16: 14}
TRANSA, TRANSB, MAX_WORKSPACE = 3, 4, 1
TRANSPOSED = 1
ALGORITHM_WORDS = 8


class Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * ALGORITHM_WORDS),
        ("workspace_bytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


@dataclass(frozen=True)
class Algorithm:
    """One way in which the library would multiply."""

    number: int
    found: Heuristic


class CublasLt:
    """The library's handle and one workspace.

    Raises:
        KernelwrightError: when the library cannot be found or refuses a call.
    """

    def __init__(self, device: torch.device) -> None:
        self._library = _load()
        self._handle = ctypes.c_void_p()
        self._call("cublasLtCreate", ctypes.byref(self._handle))
        self._workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=device)

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise KernelwrightError(f"{name} answered with status {status}")

    def product(self, m: int, n: int, k: int, *, b_is_kn: bool, dtype: torch.dtype) -> LtProduct:
        """Returns a row-major product m x n x k, ready to be asked for algorithms."""
        return LtProduct(self, (m, n, k), b_is_kn, dtype)


class LtProduct:
    """One product's descriptors."""

    def __init__(self, lt: CublasLt, sizes: tuple[int, int, int], b_is_kn: bool, dtype: torch.dtype) -> None:
        m, n, k = sizes
        self._lt, kind = lt, DATA_TYPES[dtype]
        self._description = ctypes.c_void_p()
        lt._call("cublasLtMatmulDescCreate", ctypes.byref(self._description), COMPUTE_32F, R_32F)
        # Column by column the library sees C^T (n x m) = B^T A^T; B n x k is then k x n in memory, to be transposed.
        self._set_transposed(TRANSA, not b_is_kn)
        first = (n, k) if b_is_kn else (k, n)
        self._layouts = [self._layout(kind, *shape) for shape in (first, (k, m), (n, m))]
        self._alpha, self._beta = ctypes.c_float(1.0), ctypes.c_float(0.0)

    def _set_transposed(self, which: int, transposed: bool) -> None:
        operation = ctypes.c_int(TRANSPOSED if transposed else 0)
        size = ctypes.c_size_t(ctypes.sizeof(operation))
        self._lt._call("cublasLtMatmulDescSetAttribute", self._description, which, ctypes.byref(operation), size)

    def _layout(self, kind: int, rows: int, columns: int) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        sizes = (ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows))
        self._lt._call("cublasLtMatrixLayoutCreate", ctypes.byref(made), kind, *sizes)
        return made

    def algorithms(self) -> tuple[Algorithm, ...]:
        """Returns what the heuristic offers, its favourite first."""
        preference = ctypes.c_void_p()
        self._lt._call("cublasLtMatmulPreferenceCreate", ctypes.byref(preference))
        most = ctypes.c_uint64(WORKSPACE_BYTES)
        size = ctypes.c_size_t(ctypes.sizeof(most))
        self._lt._call("cublasLtMatmulPreferenceSetAttribute", preference, MAX_WORKSPACE, ctypes.byref(most), size)
        results, count = (Heuristic * ASKED)(), ctypes.c_int()
        b, a, c = self._layouts
        self._lt._call(
            "cublasLtMatmulAlgoGetHeuristic", self._lt._handle, self._description, b, a, c, c, preference, ASKED,
            results, ctypes.byref(count),
        )  # fmt: skip
        self._lt._call("cublasLtMatmulPreferenceDestroy", preference)
        return tuple(Algorithm(i, results[i]) for i in range(count.value) if results[i].state == 0)

    def issue(self, algorithm: Algorithm, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, stream: int) -> None:
        """Enqueues the product."""
        first, second, c = self._layouts
        pointer = ctypes.c_void_p
        self._lt._call(
            "cublasLtMatmul", self._lt._handle, self._description, ctypes.byref(self._alpha), pointer(b.data_ptr()),
            first, pointer(a.data_ptr()), second, ctypes.byref(self._beta), pointer(out.data_ptr()), c,
            pointer(out.data_ptr()), c, ctypes.byref(algorithm.found.algorithm),
            pointer(self._lt._workspace.data_ptr()), ctypes.c_size_t(WORKSPACE_BYTES), pointer(stream),
        )  # fmt: skip


def _load() -> ctypes.CDLL:
    for name in NAMES:
        try:
            return ctypes.CDLL(name)  # torch has loaded it: found by its name alone
        except OSError:
            continue
    raise KernelwrightError(f"none of {', '.join(NAMES)} can be loaded", "torch for CUDA brings one")
