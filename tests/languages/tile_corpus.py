"""Problems, inputs and float64 references for the kernel files below tests/languages/{triton,cutile}."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kernelwright.languages import candidate_from_file
from kernelwright.types import Candidate, Problem, SourceFile, Target, TensorSpec, Workload

HERE = Path(__file__).resolve().parent
ARCHITECTURES = ("sm_80", "sm_90a", "sm_100")
Arrays = Mapping[str, Any]


class Case(NamedTuple):
    """What a kernel file should compute."""

    inputs: tuple[tuple[str, tuple[int, ...], str], ...]
    outputs: tuple[tuple[str, tuple[int, ...], str], ...]
    reference: Callable[[Arrays], Any]
    tolerance: float = 2e-6
    """Largest allowed |difference| relative to the largest |truth|."""
    most: int = 0
    """Exclusive bound of integers that are drawn."""


def _softmax(a: Arrays) -> Any:
    powers = np.exp(a["x"] - a["x"].max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _layer_norm(a: Arrays) -> Any:
    x = a["x"]
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * a["weight"] + a["bias"]


def _attention(a: Arrays) -> Any:
    scores = a["q"] @ a["k"].T / np.sqrt(32)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True) @ a["v"]


F4, F2, B2, I4 = "float32", "float16", "bfloat16", "int32"
HALF, BRAIN = 6e-4, 5e-3
"""Half a unit in the last place of float16 and bfloat16, with room for one more rounding."""
MATMUL = Case((("x", (100, 70), F2), ("y", (70, 48), F2)), (("out", (100, 48), F2),), lambda a: a["x"] @ a["y"], HALF)
MAXIMUM = Case((("x", (500,), F4),), (("out", (1,), F4),), lambda a: a["x"].max(keepdims=True), 0.0)
CASES = {
    "add": Case((("x", (1000,), F4), ("y", (1000,), F4)), (("out", (1000,), F4),), lambda a: a["x"] + a["y"]),
    "softmax": Case((("x", (24, 100), F4),), (("out", (24, 100), F4),), _softmax),
    "layer_norm": Case(
        (("x", (16, 150), F4), ("weight", (150,), F4), ("bias", (150,), F4)), (("out", (16, 150), F4),), _layer_norm
    ),
    "matmul": MATMUL,
    "matmul_bfloat16": Case(
        (("x", (32, 32), B2), ("y", (32, 32), B2)), (("out", (32, 32), F4),), lambda a: a["x"] @ a["y"]
    ),
    "matmul_descriptors": Case(
        (("x", (64, 64), F2), ("y", (64, 32), F2)), (("out", (64, 32), F2),), lambda a: a["x"] @ a["y"], HALF
    ),
    "scale_descriptor": Case((("x", (64, 64), F2),), (("out", (64, 64), F2),), lambda a: a["x"] * 2, 0.0),
    "cumsum": Case((("x", (12, 50), F4),), (("out", (12, 50), F4),), lambda a: np.cumsum(a["x"], axis=1)),
    "transpose": Case((("x", (50, 70), F4),), (("out", (70, 50), F4),), lambda a: a["x"].T, 0.0),
    "gather_rows": Case(
        (("table", (40, 32), F4), ("index", (20,), I4)), (("out", (20, 32), F4),),
        lambda a: a["table"][a["index"].astype(int)], 0.0, most=40,
    ),
    "histogram": Case(
        (("x", (500,), I4),), (("out", (16,), I4),),
        lambda a: np.bincount(a["x"].astype(int), minlength=16), 0.0, most=16,
    ),
    "argmax": Case((("x", (20, 50), F4),), (("out", (20,), I4),), lambda a: a["x"].argmax(axis=1), 0.0),
    "attention": Case(
        (("q", (32, 32), F2), ("k", (64, 32), F2), ("v", (64, 32), F2)), (("out", (32, 32), F4),), _attention, HALF
    ),
    "bfloat16": Case(
        (("x", (300,), B2), ("y", (300,), B2)), (("out", (300,), B2),), lambda a: a["x"] * a["y"] + a["x"], BRAIN
    ),
    "two_steps": MAXIMUM,
}  # fmt: skip


def files(language: str) -> tuple[Path, ...]:
    """The kernel files of a language."""
    return tuple(sorted((HERE / language).glob("*.py")))


def problem(name: str) -> Problem:
    """The problem that a kernel file of this name solves."""
    case = CASES[name]

    def specs(items: tuple[tuple[str, tuple[int, ...], str], ...], role: Any) -> tuple[TensorSpec, ...]:
        return tuple(TensorSpec(name=n, shape=shape, dtype=dtype, role=role) for n, shape, dtype in items)

    return Problem(
        name=name,
        inputs=specs(case.inputs, "input"),
        parameters=(),
        outputs=specs(case.outputs, "output"),
        reference=(SourceFile(path="reference.py", text=f"def {name}(): ...\n"),),
        entry=name,
        workloads=(Workload(name="default", generator="spec"),),
        min_bytes=1,
    )


def candidate(path: Path) -> Candidate:
    """The candidate that a kernel file is."""
    return candidate_from_file(problem(path.stem), path)


def target(architecture: str) -> Target:
    return Target(kind="cuda", architecture=architecture, features=(), threads=2, toolchain=())


def drawn(name: str) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Inputs as bytes, and the same as float64."""
    case = CASES[name]
    random = np.random.default_rng(sum(map(ord, name)))
    contents, exact = {}, {}
    for tensor, shape, dtype in case.inputs:
        if dtype == I4:
            values = random.integers(0, case.most, shape, np.int32)
        else:
            values = random.standard_normal(shape).astype(F2 if dtype == F2 else F4)
        if dtype == B2:  # cut off: what is left is exact in bfloat16
            bits = (values.view(np.uint32) >> 16).astype(np.uint16)
            contents[tensor] = bits.tobytes()
            values = (bits.astype(np.uint32) << 16).view(np.float32)
        else:
            contents[tensor] = values.tobytes()
        exact[tensor] = values.astype(np.float64)
    return contents, exact


def check(name: str, outputs: Mapping[str, bytes]) -> None:
    """Asserts that outputs are as near to the float64 reference as their dtype allows."""
    case = CASES[name]
    truth = np.asarray(case.reference(drawn(name)[1]), np.float64)
    ((tensor, shape, dtype),) = case.outputs
    if dtype == B2:
        found = (np.frombuffer(outputs[tensor], np.uint16).astype(np.uint32) << 16).view(np.float32)
    else:
        found = np.frombuffer(outputs[tensor], dtype)
    error = np.abs(found.reshape(shape).astype(np.float64) - truth).max()
    assert error <= case.tolerance * np.abs(truth).max(), f"{name}: {error}"
