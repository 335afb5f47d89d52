"""Contenders beside cuBLASLt: cublasGemmEx, torch.compile's max-autotune, and foreign kernels from a folder.

A foreign kernel is a shared library NAME.nk.so or NAME.kn.so (how B lies), or NAME.MxNxK.nk.so for one shape, with

    extern "C" int gemm(const void* a, const void* b, void* c, int m, int n, int k, int bfloat16, void* stream);

which enqueues C = A B (row-major, 16-bit in and out) and returns 0. It runs in the measuring worker, unjailed: put
only code there that you would run anyway. One that is not right has no time.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from pathlib import Path

import torch

from kernelwright.errors import KernelwrightError
from kernelwright.judge.device.cudnn import loaded
from kernelwright.judge.device.products.cublaslt import COMPUTE_32F, DATA_TYPES, WORKSPACE_BYTES
from kernelwright.judge.device.products.measure import Bench, Contender

CUBLAS = ("libcublas.so.13", "libcublas.so.12")
DEFAULT_ALGORITHM = -1
FOREIGN = re.compile(r"^(?P<name>.+?)(\.(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+))?\.(?P<layout>nk|kn)\.so$")


class Cublas:
    """A handle of cuBLAS on one stream, with a workspace of its own.

    Raises:
        KernelwrightError: when the library cannot be found or refuses a call.
    """

    def __init__(self, device: torch.device, stream: int) -> None:
        self._library = loaded(*CUBLAS)
        self._handle = ctypes.c_void_p()
        self._workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=device)
        self._call("cublasCreate_v2", ctypes.byref(self._handle))
        self._call("cublasSetStream_v2", self._handle, ctypes.c_void_p(stream))
        size = ctypes.c_size_t(WORKSPACE_BYTES)
        self._call("cublasSetWorkspace_v2", self._handle, ctypes.c_void_p(self._workspace.data_ptr()), size)

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise KernelwrightError(f"{name} answered with status {status}")

    def contender(self, bench: Bench, layout: str) -> Contender:
        """Returns cublasGemmEx with its own choice of algorithm."""
        p, kind = bench.product, DATA_TYPES[bench.dtype]
        one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
        leading = p.n if layout == "kn" else p.k

        def issue(number: int) -> None:
            slot = bench.at(number)
            a, b, c = (ctypes.c_void_p(t.data_ptr()) for t in (slot.a, slot.b(layout), slot.out))
            self._call(
                "cublasGemmEx", self._handle, int(layout == "nk"), 0, p.n, p.m, p.k, ctypes.byref(one), b, kind,
                leading, a, kind, p.k, ctypes.byref(zero), c, kind, p.n, COMPUTE_32F, DEFAULT_ALGORITHM,
            )  # fmt: skip

        return Contender(f"cublas_{layout}", issue, keep=(self, one, zero))


def compiled_contender(bench: Bench, layout: str) -> Contender:
    """Returns torch.compile's max-autotune; its compilation takes many seconds a shape.

    Raises:
        KernelwrightError: when Inductor cannot compile it here.
    """
    torch._dynamo.reset()

    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ (b if layout == "kn" else b.t())

    made = torch.compile(product, mode="max-autotune-no-cudagraphs", dynamic=False)
    slot = bench.slots[0]
    try:
        bench.slots[0].out[0].copy_(made(slot.a[0], slot.b(layout)[0]))
    except Exception as error:
        raise KernelwrightError(f"torch.compile: {error}") from error

    def issue(number: int) -> None:
        here = bench.slots[number]
        made(here.a[0], here.b(layout)[0])

    return Contender(f"compiled_{layout}", issue, keep=made)


def foreign_contenders(bench: Bench, folder: Path) -> Iterator[Contender]:
    """Yields the libraries of a folder that are for this product's shape; see the module's text."""
    p = bench.product
    for path in sorted(folder.glob("*.so")):
        found = FOREIGN.match(path.name)
        if found is None or (found["m"] and (int(found["m"]), int(found["n"]), int(found["k"])) != (p.m, p.n, p.k)):
            continue
        yield _foreign(bench, path, found["name"], found["layout"])


def _foreign(bench: Bench, path: Path, name: str, layout: str) -> Contender:
    p, stream = bench.product, ctypes.c_void_p(int(bench.executor.stream.cuda_stream))
    gemm = ctypes.CDLL(str(path)).gemm
    half = int(bench.dtype == torch.bfloat16)

    def issue(number: int) -> None:
        slot = bench.at(number)
        a, b, c = (ctypes.c_void_p(t.data_ptr()) for t in (slot.a, slot.b(layout), slot.out))
        if status := gemm(a, b, c, p.m, p.n, p.k, half, stream):
            raise KernelwrightError(f"{path.name} answered with status {status}")

    return Contender(f"foreign_{name}_{layout}", issue, keep=gemm)
