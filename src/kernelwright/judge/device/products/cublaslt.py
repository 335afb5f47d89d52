"""cuBLASLt as its best user calls it: every algorithm that its heuristic returns, with a sound workspace, and a sweep
over what its algorithms say they can do.

Over ctypes on the library that torch has loaded; matrices are row-major here, so that the library sees the transposed
product. Enumerations are those of cublasLt.h (CUDA 12 and 13).
An algorithm can be written down for the same version of the library: its 64 bytes.
Not here: which of the algorithms is fastest, which the caller measures.
"""

from __future__ import annotations

import ctypes
import itertools
import random
from dataclasses import dataclass
from typing import Any

import torch

from kernelwright.errors import KernelwrightError
from kernelwright.judge.device.cudnn import loaded

NAMES = ("libcublasLt.so.13", "libcublasLt.so.12")
WORKSPACE_BYTES = 32 << 20
"""What NVIDIA asks for on Hopper; a workspace of no bytes would forbid split-K."""
ASKED = 100
COMPUTE_32F, R_32F = 68, 0
DATA_TYPES = {torch.float16: 2, torch.bfloat16: 14}
TRANSA, TRANSB, MAX_WORKSPACE = 3, 4, 1
TRANSPOSED = 1
ALGORITHM_WORDS = 8
MOST_IDS = 256
CAP_SPLITK, CAP_REDUCTIONS, CAP_SWIZZLING, CAP_TILES, CAP_CUSTOM, CAP_STAGES = 0, 1, 2, 6, 7, 13
TILE, SPLITK, REDUCTION, SWIZZLING, CUSTOM, STAGES, CLUSTER = 1, 2, 3, 4, 5, 6, 8
"""Numbers of an algorithm's configuration."""
CLUSTERS = (0, 2, 3, 5, 6)
"""The library's choice, 1 x 1, 2 x 1, 1 x 2, 2 x 2."""
SHARES = (2, 3, 4, 6, 8, 12, 16)
LEAST_SHARE = 128
"""Elements of k: a split that leaves fewer never wins."""
MOST_CUSTOM = 3


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
    version: int = 0

    def text(self) -> str:
        """Returns the algorithm as a tuned table keeps it."""
        return f"{self.version}:{bytes(self.found.algorithm).hex()}:{self.found.workspace_bytes}"


class CublasLt:
    """The library's handle and one workspace.

    Raises:
        KernelwrightError: when the library cannot be found or refuses a call.
    """

    def __init__(self, device: torch.device) -> None:
        self._library = loaded(*NAMES)
        self._handle = ctypes.c_void_p()
        self._call("cublasLtCreate", ctypes.byref(self._handle))
        self._library.cublasLtGetVersion.restype = ctypes.c_size_t
        self.version = int(self._library.cublasLtGetVersion())
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
        self._lt, self._kind, self._k = lt, DATA_TYPES[dtype], k
        kind = self._kind
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
        return tuple(Algorithm(i, results[i], self._lt.version) for i in range(count.value) if results[i].state == 0)

    def every_algorithm(self, most: int) -> tuple[Algorithm, ...]:
        """Returns up to `most` configurations that the library admits, drawn evenly over its algorithms' ids.

        **Covers**: every id, its tiles, stages and custom options (up to 3), clusters up to 2 x 2, shares of k with
        every reduction, both orders of tiles. **Does not cover**: inner shapes, larger clusters.
        """
        kinds = (COMPUTE_32F, R_32F, *([self._kind] * 4))
        ids, count = (ctypes.c_int * MOST_IDS)(), ctypes.c_int()
        self._lt._call("cublasLtMatmulAlgoGetIds", self._lt._handle, *kinds, MOST_IDS, ids, ctypes.byref(count))
        drawing = random.Random(0)
        queues = []
        for number in ids[: count.value]:
            basis = (ctypes.c_uint64 * ALGORITHM_WORDS)()
            if self._lt._library.cublasLtMatmulAlgoInit(self._lt._handle, *kinds, number, basis):
                continue
            settings = self._settings(basis)
            drawing.shuffle(settings)
            queues.append((basis, iter(settings)))
        found: list[Algorithm] = []
        while queues and len(found) < most:
            for queue in list(queues):
                admitted = self._next_admitted(*queue)
                if admitted is None:
                    queues.remove(queue)
                elif len(found) < most:
                    found.append(Algorithm(len(found), admitted, self._lt.version))
        return tuple(found)

    def _settings(self, basis: Any) -> list[tuple[tuple[int, int], ...]]:
        """Every combination of (attribute, value) that an algorithm's capabilities name."""
        tiles, stages = (self._capability(basis, which, many=True) or [0] for which in (CAP_TILES, CAP_STAGES))
        one = [
            (self._capability(basis, which) or [0])[0]
            for which in (CAP_SPLITK, CAP_REDUCTIONS, CAP_SWIZZLING, CAP_CUSTOM)
        ]
        splits, reductions, swizzling, custom = one
        shares = [(1, 0)]
        if splits:
            schemes = [scheme for scheme in (1, 2, 4) if reductions & scheme]
            shares += [(n, scheme) for n in SHARES if self._k // n >= LEAST_SHARE for scheme in schemes]
        made = itertools.product(
            tiles, stages, range(min(custom, MOST_CUSTOM) + 1), (0, 1) if swizzling else (0,), CLUSTERS, shares
        )
        return [
            ((TILE, t), (STAGES, s), (CUSTOM, c), (SWIZZLING, w), (CLUSTER, shape), (SPLITK, n), (REDUCTION, scheme))
            for t, s, c, w, shape, (n, scheme) in made
        ]

    def _capability(self, basis: Any, which: int, *, many: bool = False) -> list[int]:
        room, written = (ctypes.c_uint32 * (1024 if many else 1))(), ctypes.c_size_t()
        size = ctypes.c_size_t(ctypes.sizeof(room))
        get = self._lt._library.cublasLtMatmulAlgoCapGetAttribute
        if get(basis, which, room, size, ctypes.byref(written)):
            return []
        return list(room[: written.value // 4])

    def _next_admitted(self, basis: Any, settings: Any) -> Heuristic | None:
        b, a, c = self._layouts
        library = self._lt._library
        for setting in settings:
            tried = (ctypes.c_uint64 * ALGORITHM_WORDS)(*basis)
            for attribute, number in setting:
                kind = ctypes.c_uint16 if attribute == CLUSTER else ctypes.c_uint32
                library.cublasLtMatmulAlgoConfigSetAttribute(
                    tried, attribute, ctypes.byref(kind(number)), ctypes.c_size_t(ctypes.sizeof(kind))
                )
            answer = Heuristic()
            bad = library.cublasLtMatmulAlgoCheck(
                self._lt._handle, self._description, b, a, c, c, tried, ctypes.byref(answer)
            )
            if not bad and answer.workspace_bytes <= WORKSPACE_BYTES:
                ctypes.memmove(answer.algorithm, tried, ctypes.sizeof(tried))
                return answer
        return None

    def launcher_step(self, text: str) -> dict[str, Any] | None:
        """Returns what a compiled launcher needs to call an algorithm that was written down, None of another version.

        Buffers are numbered A, B, C, workspace. The product and its library must outlive the launcher's calls.
        """
        version, algorithm, workspace = text.split(":")
        if int(version) != self._lt.version:
            return None
        return {
            "matmul": int(ctypes.cast(self._lt._library.cublasLtMatmul, ctypes.c_void_p).value or 0),
            "handle": int(self._lt._handle.value or 0), "product": int(self._description.value or 0),
            "layouts": tuple(int(layout.value or 0) for layout in self._layouts), "buffers": (1, 0, 2, 3),
            "algorithm": bytes.fromhex(algorithm), "workspace_bytes": int(workspace),
        }  # fmt: skip

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
