"""Launch plans: which kernels are called, in order, with what. Data only: no host code of an author exists.

Not here: whether a plan can be right (languages/plan.py), what its expressions are worth (sizes.py).
"""

from __future__ import annotations

from typing import Literal

from kernelwright.values import value

Size = int | str
"""A whole number, or an expression over the problem's dynamic axes: `ceil_div(M, 128) * 2` (sizes.py)."""


@value
class Binding:
    """One argument of a kernel: a tensor of the problem, a workspace, a number, an axis or a tensor map."""

    kind: Literal["tensor", "workspace", "scalar", "axis", "tensor_map"]
    name: str
    """The tensor's, workspace's or tensor map's name; for a scalar, its parameter name; for an axis its name, or an
    expression over axes (sizes.py)."""
    ctype: str
    """The element's C type for pointers, the type itself for scalars and axes: float, double, int64_t ...;
    CUtensorMap for a tensor map."""
    scalar: int | float | None = None
    """The scalar's value; None for all else."""


@value
class Workspace:
    """Scratch memory that a plan needs; its contents are undefined before every call."""

    name: str
    size_bytes: Size


@value
class TensorMap:
    """A TMA descriptor of a tensor or workspace (CUDA driver API, cuTensorMapEncodeTiled).

    Dimensions are written innermost first, as the driver takes them.
    """

    name: str
    of: str
    """The tensor or workspace that it describes."""
    dtype: str
    shape: tuple[Size, ...]
    strides_bytes: tuple[Size, ...]
    """Of every dimension but the innermost."""
    box: tuple[int, ...]
    """Elements of the box that one copy moves, per dimension."""
    element_strides: tuple[int, ...] = ()
    """Ones where empty."""
    swizzle_bytes: Literal[0, 32, 64, 128] = 0
    l2_promotion_bytes: Literal[0, 64, 128, 256] = 128
    nan_fill: bool = False
    """What lies outside reads as NaN instead of zero."""


@value
class Launch:
    """How a device kernel is started."""

    grid: tuple[Size, Size, Size]
    """Blocks (not clusters) along x, y, z."""
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    shared_bytes: int = 0
    """Dynamic shared memory."""
    cooperative: bool = False
    programmatic: bool = False
    """May start before the step before it has ended (programmatic stream serialization)."""


@value
class Step:
    """One step of a launch plan: a kernel call, a memset, or a call of a vendor library."""

    symbol: str
    """The kernel's name; for a library call its routine's name; empty for a memset."""
    arguments: tuple[Binding, ...]
    kind: Literal["kernel", "memset", "library"] = "kernel"
    launch: Launch | None = None
    """For device kernels; None for what runs on the CPU."""
    byte: int = 0
    """For a memset: the value of every byte of its one argument."""
    options: tuple[tuple[str, str | int | float | bool], ...] = ()
    """For a library call: how it is called."""


@value
class LaunchPlan:
    """What is called, in order, with what. It is data: no host code of the author exists."""

    steps: tuple[Step, ...]
    workspaces: tuple[Workspace, ...] = ()
    tensor_maps: tuple[TensorMap, ...] = ()
