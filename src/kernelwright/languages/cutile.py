"""The language `cutile`: Python files with @cuda.tile.kernel functions, compiled to one cubin by tileiras.

A step names a kernel, binds its arrays and scalars in order and gives the `Constant` parameters by name in
`Step.options`, together with `occupancy`, `opt_level` and `num_worker_warps` of that kernel. The artifact's plan is
final: its symbols, blocks and arguments are the cubin's. The compiler's remarks (which instruction each load, store
and product became) are in the artifact's log, by source line. Not here: cuda.tile itself, which runs in a process of
its own (kernelwright.tiles.cutile_build), and the calling convention (cutile_plan.py).
"""

from __future__ import annotations

from importlib import metadata

from kernelwright.errors import MissingTool
from kernelwright.languages import cutile_plan, python_source, tile_arguments
from kernelwright.languages.python_source import KernelFunction
from kernelwright.languages.tile_language import TileLanguage, chosen_settings, unsupported
from kernelwright.types import Candidate, Failure, OptionValue, Problem, Target

FORMAT = 1
"""Part of every key: raise it when the same inputs would give another artifact or another verdict."""
WORKER = "kernelwright.tiles.cutile_build"
GPU_CODES = {
    "sm_80": "sm_80", "sm_86": "sm_86", "sm_87": "sm_87", "sm_89": "sm_89", "sm_90": "sm_90", "sm_90a": "sm_90",
    "sm_100": "sm_100", "sm_100a": "sm_100", "sm_103": "sm_103", "sm_110": "sm_110", "sm_120": "sm_120",
}  # fmt: skip
"""tileiras' name for an architecture; the code for sm_90 uses its own instructions (sm_90a) without saying so."""
ALLOWED = ("cuda.tile", "math", "functools", "__future__")
SETTINGS: dict[str, tuple[int, ...]] = {
    "occupancy": tuple(range(1, 33)),
    "opt_level": (0, 1, 2, 3),
    "num_worker_warps": (4, 8),
}
"""Options of a step or, as defaults, of the candidate, and what they can be."""
NO_CUTILE = 'install it: pip install "cuda-tile[tileiras]>=1.7,<1.8"'


class Cutile(TileLanguage):
    """cuTile sources to a cubin, without a device or a driver.

    **Covers**: sm_80, sm_90a, sm_100 and their relatives; several kernels in one cubin; constants, scalars, arrays with
    fixed and varying sizes; located errors and remarks; crashes of the compiler; bounded time and memory.
    **Does not cover**: num_ctas above 1 (its launch is not documented), lists and tuples as parameters, 64-bit indices,
    foreign functions.
    """

    name, worker, format = "cutile", WORKER, FORMAT

    def versions(self) -> object:
        """Returns the versions of what builds; raises MissingTool where it is not installed."""
        return installed_versions()

    def check(self, problem: Problem, candidate: Candidate, target: Target) -> Failure | None:
        """Returns why a candidate cannot be built; raises PlanFault where plan and source do not fit."""
        if fault := python_source.check_sources(candidate.sources, ALLOWED) or check_options(candidate.options):
            return fault
        if target.architecture not in GPU_CODES:
            return unsupported(self.name, target, GPU_CODES)
        for matched in match(candidate):
            cutile_plan.signature(problem, candidate, matched, settings=settings_of(candidate, matched))
        return None


def kernels(candidate: Candidate) -> tuple[KernelFunction, ...]:
    """Returns the kernels that a candidate's first source defines."""
    return python_source.kernels(candidate.sources[0], decorator="kernel", constant="Constant")


def match(candidate: Candidate) -> tuple[tile_arguments.Matched, ...]:
    """Returns the steps of a candidate with the kernels that they call.

    Raises:
        PlanFault: when plan and source do not fit.
    """
    return tile_arguments.match(
        candidate, kernels(candidate), settings=frozenset(SETTINGS), decorator="@cuda.tile.kernel"
    )


def settings_of(candidate: Candidate, matched: tile_arguments.Matched) -> tuple[tuple[str, OptionValue], ...]:
    """Returns occupancy and the like for one step: the step's own, else the candidate's.

    Raises:
        PlanFault: for a value that cannot be.
    """
    return chosen_settings(candidate, matched, SETTINGS)


def check_options(options: tuple[tuple[str, OptionValue], ...]) -> Failure | None:
    """Returns what is wrong with a candidate's build options, None where nothing is."""
    for name, given in options:
        if name not in SETTINGS:
            message = f"unknown option {name!r}; known are {', '.join(SETTINGS)}"
            return Failure(stage="build", kind="option", message=message)
        if type(given) is not int or given not in SETTINGS[name]:
            message = f"option {name!r} is {given!r}; it can be {_choices(name)}"
            return Failure(stage="build", kind="option", message=message)
    return None


def _choices(name: str) -> str:
    return ", ".join(map(str, SETTINGS[name]))


def installed_versions() -> tuple[str, str]:
    """Returns the versions of cuda.tile and of tileiras (`system` where it is not from a package).

    Raises:
        MissingTool: when cuda.tile is not installed.
    """
    try:
        tile = metadata.version("cuda-tile")
    except metadata.PackageNotFoundError:
        raise MissingTool("the package 'cuda-tile' is not installed", NO_CUTILE) from None
    try:
        return tile, metadata.version("nvidia-cuda-tileiras")
    except metadata.PackageNotFoundError:
        return tile, "system"
