"""The language `triton`: Python files with @triton.jit kernels, compiled ahead to one cubin.

A step names a kernel, binds its run-time parameters in order and gives the constexprs by name in `Step.options`,
together with `num_warps`, `num_stages`, `num_ctas` and `maxnreg` of that kernel; the candidate's options give defaults
for all steps. All of them are part of the candidate's identity. Tensor descriptors are bound as tensor maps, whose box
is the descriptor's block shape. The artifact's plan is final: the cubin's symbols, blocks and arguments.
Not here: Triton itself, which runs in a process of its own (kernelwright.tiles.triton_build), and what to compile
(triton_plan.py).
"""

from __future__ import annotations

from importlib import metadata

from kernelwright.errors import MissingTool
from kernelwright.languages import python_source, tile_arguments, triton_plan
from kernelwright.languages.python_source import KernelFunction
from kernelwright.languages.tile_arguments import PlanFault
from kernelwright.languages.tile_language import TileLanguage, chosen_settings, unsupported
from kernelwright.types import Candidate, Failure, OptionValue, Problem, Target

FORMAT = 1
"""Part of every key: raise it when the same inputs would give another artifact or another verdict."""
WORKER = "kernelwright.tiles.triton_build"
CAPABILITIES = {"sm_80": 80, "sm_86": 86, "sm_89": 89, "sm_90": 90, "sm_90a": 90, "sm_100": 100, "sm_100a": 100,
                "sm_103": 103, "sm_120": 120}  # fmt: skip
"""Triton's number for an architecture; from 90 on it always uses the architecture's own instructions (sm_90a)."""
ALLOWED = ("triton", "triton.jit", "triton.cdiv", "triton.next_power_of_2", "triton.language", "triton.language.*",
           "math", "__future__")  # fmt: skip
WHOLE_SETTINGS: dict[str, tuple[int, ...]] = {
    "num_warps": (1, 2, 4, 8, 16, 32),
    "num_stages": tuple(range(1, 17)),
    "num_ctas": (1, 2, 4, 8, 16),
    "maxnreg": tuple(range(16, 256, 8)),
}
"""Options of a step or, as defaults, of the candidate, and what they can be."""
BUILD_OPTIONS: dict[str, tuple[str, tuple[OptionValue, ...]]] = {
    "fp_fusion": ("true or false: contract multiplications and additions", (True, False)),
    "dot_precision": ("tf32, tf32x3, bf16x3, bf16x6 or ieee: products of float32",
                      ("tf32", "tf32x3", "bf16x3", "bf16x6", "ieee")),
}  # fmt: skip
NO_TRITON = 'install it: pip install "triton>=3.6,<3.7"'


class Triton(TileLanguage):
    """Triton sources to a cubin, without a device or a driver.

    **Covers**: sm_80, sm_90a, sm_100 and their relatives; several kernels in one cubin; specialisation by value and
    alignment; tensor descriptors made by the host or by the kernel; located errors; bounded time and memory.
    **Does not cover**: @triton.autotune and @triton.heuristics (state their choice in the plan), kernels with tuple
    arguments, inline profiling. A kernel that makes descriptors itself cannot have a grid that depends on an axis.
    """

    name, worker, format = "triton", WORKER, FORMAT

    def versions(self) -> object:
        """Returns the versions of what builds; raises MissingTool where it is not installed."""
        return installed_version("triton", NO_TRITON)

    def check(self, problem: Problem, candidate: Candidate, target: Target) -> Failure | None:
        """Returns why a candidate cannot be built; raises PlanFault where plan and source do not fit."""
        if fault := python_source.check_sources(candidate.sources, ALLOWED) or check_options(candidate.options):
            return fault
        if target.architecture not in CAPABILITIES:
            return unsupported(self.name, target, CAPABILITIES)
        for matched in match(candidate):
            triton_plan.signature(problem, candidate, matched, settings=settings_of(candidate, matched))
        return None


def kernels(candidate: Candidate) -> tuple[KernelFunction, ...]:
    """Returns the kernels that a candidate's first source defines."""
    return python_source.kernels(candidate.sources[0], decorator="jit", constant="constexpr")


def match(candidate: Candidate) -> tuple[tile_arguments.Matched, ...]:
    """Returns the steps of a candidate with the kernels that they call.

    Raises:
        PlanFault: when plan and source do not fit.
    """
    matched = tile_arguments.match(
        candidate, kernels(candidate), settings=frozenset(WHOLE_SETTINGS), decorator="@triton.jit"
    )
    for found in matched:
        for decorator in found.kernel.decorators:
            if decorator.split("(")[0].rpartition(".")[2] in ("autotune", "heuristics"):
                which = decorator.split("(")[0]
                message = f"{found.where}: @{which} chooses while a device runs; state its choice in the plan"
                raise PlanFault(message, kind="source", location=found.kernel.location)
    return matched


def settings_of(candidate: Candidate, matched: tile_arguments.Matched) -> tuple[tuple[str, OptionValue], ...]:
    """Returns num_warps and the like for one step: the step's own, else the candidate's.

    Raises:
        PlanFault: for a value that cannot be.
    """
    return chosen_settings(candidate, matched, WHOLE_SETTINGS)


def check_options(options: tuple[tuple[str, OptionValue], ...]) -> Failure | None:
    """Returns what is wrong with a candidate's build options, None where nothing is."""
    for name, given in options:
        if name in WHOLE_SETTINGS:
            choices: tuple[OptionValue, ...] = WHOLE_SETTINGS[name]
        elif name in BUILD_OPTIONS:
            choices = BUILD_OPTIONS[name][1]
        else:
            known = ", ".join([*WHOLE_SETTINGS, *(f"{key} ({what})" for key, (what, _) in BUILD_OPTIONS.items())])
            return Failure(stage="build", kind="option", message=f"unknown option {name!r}; known are {known}")
        if given not in choices or type(given) is not type(choices[0]):
            message = f"option {name!r} is {given!r}; it can be {', '.join(map(str, choices))}"
            return Failure(stage="build", kind="option", message=message)
    return None


def installed_version(package: str, fix: str) -> str:
    """Returns the version of an installed package.

    Raises:
        MissingTool: when it is not installed.
    """
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        raise MissingTool(f"the package {package!r} is not installed", fix) from None
