"""Runs cuda.tile kernels on the CPU, on NumPy arrays, and tells what is wrong with them at the source line.

    from kernelwright.tile_interpreter import Output, interpret
    found = interpret(kernel, (blocks,), (x, y, Output(out), 128))
    print(found)          # kernel.py:12: error: out-of-bounds: ...

Needs NumPy and cuda.tile, no device and no driver; import it where kernels are run, never in the parent.

**Covers**: the functions of cuda.tile 1.7 listed in `covered()`, tiles' operators and methods, array slices, tiled
views and raw memory; loads and stores outside arrays, races between blocks, undefined values that reach memory, outputs
that stay unwritten, shapes and dtypes that cuda.tile refuses, blocks that wait for ever.
**Does not cover**: `uncovered()`; types that branches of an `if` leave different; rounding modes other than to nearest;
the order in which a device adds; time. One pass over the blocks in one random order is one sample of a device's
behaviour.
"""

import cuda.tile as ct

from kernelwright.tile_interpreter.findings import Finding, Findings
from kernelwright.tile_interpreter.rebinding import STRUCTURAL
from kernelwright.tile_interpreter.running import Output, Typed, interpret
from kernelwright.tile_interpreter.tiles import OPERATIONS

__all__ = ["Finding", "Findings", "Output", "Typed", "covered", "interpret", "uncovered"]

_HOST_NAMES = (
    "launch compiler_timeout tune compilation TileCompilerExecutionError TileCompilerTimeoutError TileError "
    "TileInternalError TileRecursionError TileStaticAssertionError TileStaticEvalError TileSyntaxError "
    "TileTypeError TileUnsupportedFeatureError TileValueError StaticException"
)
_HOST = frozenset(_HOST_NAMES.split())


def covered() -> tuple[str, ...]:
    """Returns the functions of cuda.tile that a kernel can use here."""
    return tuple(sorted(name for name in ct.__all__ if name in OPERATIONS))


def uncovered() -> tuple[str, ...]:
    """Returns the names of cuda.tile that a kernel can use on a device and not here."""
    kept = {name for name in ct.__all__ if isinstance(getattr(ct, name), ct.DType)} | STRUCTURAL | _HOST
    return tuple(sorted(name for name in ct.__all__ if name not in OPERATIONS and name not in kept))
