"""Verified kernels where people use them: bundles, torch operators, torch.compile.

    op = kernelwright.load("bundle")       # a torch operator with a guard; outside of it the original runs
    model = kernelwright.accelerate(model, bundles=("bundle",))

Importing this package loads no framework; its functions do when they are called.
Not here: making a bundle (export.py, package.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kernelwright.errors import UserError
from kernelwright.types import value

if TYPE_CHECKING:
    from kernelwright.deploy.explaining import Explanation
    from kernelwright.deploy.operator import Operator

__all__ = ["Shadow", "accelerate", "explain", "load", "load_all"]

Launcher = Literal["auto", "compiled", "python"]


@value
class Shadow:
    """Which calls are checked against the original: the first ones, and one of many afterwards."""

    first: int = 2
    every: int = 1000
    """0: none after the first ones."""
    background: bool = False
    """Compare copies in another thread, after the call has returned what the kernel gave."""


def load(
    folder: str | Path,
    name: str = "",
    *,
    gradients: Literal["original", "error"] = "original",
    shadow: Shadow | None = None,
    launcher: Launcher = "auto",
) -> Operator:
    """Returns the operator of a bundle: call it with the original's tensors, inputs first, then parameters.

    It is a torch operator (torch.ops.kernelwright) with a fake implementation and gradients, and so can stand in what
    torch.compile(fullgraph=True) compiles. Outside the verified envelope, and after any fault, the original is called.

    Args:
        folder: the bundle, or the --out folder of an optimisation.
        name: the problem's name, where the bundle holds several.
        gradients: what happens when a gradient is needed and no kernel of the bundle computes it: the original is
            called, or an error is raised (inference only).
        shadow: which calls are checked; None: the first two and one in a thousand.
        launcher: compiled: build the compiled launcher if it is not there (needs a C++ compiler, once for each version
            of torch); python: never use it; auto: use it where it is there.

    Raises:
        UserError: no bundle, damaged, several problems without a name, or none of that name.
    """
    found = load_all(folder, gradients=gradients, shadow=shadow, launcher=launcher)
    named = [op for op in found if not name or op.problem.name == name]
    if len(named) == 1:
        return named[0]
    names = ", ".join(op.problem.name for op in found)
    raise UserError(f"{folder} holds {len(found)} problems: {names}", "say which one: load(folder, name)")


def load_all(
    folder: str | Path,
    *,
    gradients: Literal["original", "error"] = "original",
    shadow: Shadow | None = None,
    launcher: Launcher = "auto",
) -> tuple[Operator, ...]:
    """Returns one operator for each problem of a bundle, or of a result folder, which is exported first; see `load`."""
    from kernelwright.deploy.bundle import MANIFEST, read_bundle
    from kernelwright.deploy.operator import operators

    folder = Path(folder)
    if (folder / "best").is_dir() and not (folder / MANIFEST).is_file():
        from kernelwright.deploy.stored import bundle_of

        folder = bundle_of(folder)
    return operators(read_bundle(folder), gradients=gradients, shadow=shadow or Shadow(), launcher=launcher)


def accelerate(
    model: Callable[..., Any], *, bundles: Sequence[str | Path] = (), measure: bool = True, mode: str = "default",
    fullgraph: bool = False,
) -> Any:  # fmt: skip
    """Returns a model compiled by Inductor in which loaded kernels stand where they win, as measured in place.

    The same as `torch.compile(model, backend="kernelwright", mode=mode)` after loading the bundles. Training works: a
    region whose gradient is needed is replaced only by a kernel that computes it.

    Args:
        model: a module or function.
        bundles: folders to load first; operators that were loaded before are found as well.
        measure: False puts every kernel that fits in its place without timing it.
        mode: of Inductor, as for torch.compile: "reduce-overhead" captures a CUDA graph with the kernels in it.
        fullgraph: as for torch.compile.

    Raises:
        UserError: a folder that is no bundle.
    """
    import torch

    from kernelwright.deploy.backend import backend

    for folder in bundles:
        load_all(folder)
    return torch.compile(model, backend=backend, options={"measure": measure, "mode": mode}, fullgraph=fullgraph)


def explain(
    model: Callable[..., Any], *inputs: Any, bundles: Sequence[str | Path] = (), show: bool = True
) -> Explanation:
    """Returns, and prints, what loaded kernels would replace in a model: see explaining.py.

    Args:
        model: a module or function.
        inputs: what it is called with.
        bundles: folders to load first.
        show: False prints nothing.

    Raises:
        UserError: a folder that is no bundle.
    """
    from kernelwright.deploy.explaining import explain as explained

    for folder in bundles:
        load_all(folder)
    return explained(model, *inputs, show=show)
