"""Builds one candidate of language `cutile`: `python -m kernelwright.tiles.cutile_build FOLDER`.

Method source: cuda.tile.compilation (cuda-tile 1.7) writes Tile IR bytecode for the kernels, and tileiras makes one
cubin of it. tileiras is run here and not by cuda.tile, because cuda.tile asks it for remarks only with its own cache
on. Not here: what the types of the arguments are (languages/cutile_plan.py), remarks and messages
(cutile_messages.py).
"""

from __future__ import annotations

import io
import os
import subprocess
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import cuda.tile as ct
from cuda.tile import _compile as private
from cuda.tile.compilation import (
    ArrayConstraint,
    CallingConvention,
    ConstantConstraint,
    KernelSignature,
    ScalarConstraint,
    export_kernel,
)

from kernelwright.languages import author_code, cubin, cutile_plan
from kernelwright.languages import cutile as language
from kernelwright.languages.cutile_plan import Argument, ArrayArgument, ConstantArgument, Signature
from kernelwright.languages.tile_arguments import Matched, PlanFault, check_table
from kernelwright.tiles import cutile_messages
from kernelwright.tiles.serving import import_sources, serve_request
from kernelwright.types import Artifact, Candidate, Failure, Launch, LaunchPlan, Problem, Step, Target

TESTED = "1.7."
"""The versions of cuda.tile whose private parts (several kernels in one module, finding tileiras) are known here."""
TOOLKIT = ("CUDA_HOME", "CUDA_PATH")
BYTECODE, REMARKS = "kernel.tileirbc", "remarks.yaml"
Wanted = dict[Signature, tuple[str, Any]]
"""(symbol, kernel) by what was asked for."""


def build(problem: Problem, candidate: Candidate, target: Target, folder: Path) -> Artifact | Failure:
    """Returns the artifact of a candidate; the cubin is `folder/kernel.cubin`.

    Raises:
        PlanFault: when plan and source do not fit.
    """
    module = import_sources(candidate, folder)
    if isinstance(module, Failure):
        return module
    wanted: Wanted = {}
    steps: list[tuple[Matched, Signature] | None] = []
    matched = iter(language.match(candidate))
    for step in candidate.plan.steps:
        if step.kind != "kernel":
            steps.append(None)
            continue
        found = next(matched)
        asked = cutile_plan.signature(problem, candidate, found, settings=language.settings_of(candidate, found))
        steps.append((found, asked))
        if asked not in wanted:
            wanted[asked] = (
                _free(found.kernel.name, {symbol for symbol, _ in wanted.values()}),
                _kernel(module, found, asked),
            )
    gpu_code = language.GPU_CODES[target.architecture]
    try:
        (folder / BYTECODE).write_bytes(_bytecode(wanted, gpu_code))
    except Exception as error:  # noqa: BLE001  (whatever cuda.tile raises about the author's source)
        return cutile_messages.of_exception(error, steps[0][0] if steps[0] else None, candidate)
    ended = _assemble(folder, gpu_code, max(_opt_level(kernel, gpu_code) for _, kernel in wanted.values()))
    if ended.returncode:
        return cutile_messages.of_tileiras(ended.returncode, ended.stderr, candidate)
    held = cubin.read(folder / author_code.CUBIN)
    plan = _final_plan(candidate, steps, wanted, held)
    remarks = cutile_messages.remarks(folder / REMARKS, candidate)
    return Artifact(candidate="", key="", blob="", entry="", plan=plan, resources=cubin.resources(held), log=remarks)


def _free(symbol: str, taken: set[str]) -> str:
    number, name = 2, symbol
    while name in taken:
        name = f"{symbol}_{number}"
        number += 1
    return name


def _kernel(module: ModuleType, matched: Matched, asked: Signature) -> Any:
    kernel = getattr(module, matched.kernel.name, None)
    if not isinstance(kernel, ct.kernel):
        message = (
            f"{matched.where}: {matched.kernel.name} is a {type(kernel).__name__}, not a function under @ct.kernel"
        )
        raise PlanFault(message, kind="symbol", location=matched.kernel.location)
    hinted = kernel.replace_hints(**dict(asked.settings)) if asked.settings else kernel
    if hinted._compiler_options.num_ctas not in (None, 1):
        message = f"{matched.where}: num_ctas above 1 is not supported: how such a kernel is launched is not documented"
        raise PlanFault(message, kind="unsupported", location=matched.kernel.location)
    return hinted


def _opt_level(kernel: Any, gpu_code: str) -> int:
    return int(kernel._compiler_options.opt_level_for_target(gpu_code))


# ----------------------------------------------------------------------------- compiling


def _bytecode(wanted: Wanted, gpu_code: str) -> bytes:
    """Tile IR of all kernels."""
    signatures = {asked: _constraints(asked, symbol) for asked, (symbol, _) in wanted.items()}
    kernels = {id(kernel): kernel for _, kernel in wanted.values()}
    if len(kernels) == 1:
        written = io.BytesIO()
        (kernel,) = kernels.values()
        export_kernel(kernel, list(signatures.values()), written, gpu_code=gpu_code, output_format="tileir_bytecode")
        return written.getvalue()
    return _several([(kernel, signatures[asked]) for asked, (_, kernel) in wanted.items()], gpu_code)


def _several(wanted: list[tuple[Any, KernelSignature]], gpu_code: str) -> bytes:
    """What export_kernel does for one kernel, for several in one module."""
    if not ct.__version__.startswith(TESTED):
        message = f"several kernels in one plan need cuda-tile {TESTED}x; {ct.__version__} is installed"
        raise PlanFault(message, kind="unsupported")
    context = ct.launch and private.default_tile_context
    version = private._get_max_supported_bytecode_version(context.config.temp_dir, allow_dev=False)
    written = bytearray()
    with private.bc.write_bytecode(num_functions=len(wanted), buf=written, version=version) as writer:
        for kernel, signature in wanted:
            function = kernel._annotated_function
            keeper = private._IrKeeper(
                ann_func=function,
                func_hir=private.get_function_hir(function.pyfunc, mode=private.HirMode.ENTRY_POINT),
                signatures=[signature],
                bytecode_version=version,
                sm_arch=gpu_code,
                log_cutile_ir=False,
                keep_all=False,
            )
            body = keeper.get_final_ir(0)
            private.generate_bytecode_for_kernel(
                body, keeper.get_dataflow_result(0), signature.symbol, kernel._compiler_options, gpu_code, writer,
                anonymize_debug_attr=False,
            )  # fmt: skip
    return bytes(written)


def _constraints(asked: Signature, symbol: str) -> KernelSignature:
    shared = [p.alias for p in asked.parameters if isinstance(p, ArrayArgument) and p.alias]
    return KernelSignature(
        [_constraint(parameter, shared) for parameter in asked.parameters],
        CallingConvention.cutile_python_v2(),
        symbol=symbol,
    )


def _constraint(parameter: Argument, shared: list[str]) -> Any:
    if isinstance(parameter, ConstantArgument):
        return ConstantConstraint(parameter.given)
    dtype = getattr(ct, parameter.dtype)
    if not isinstance(parameter, ArrayArgument):
        return ScalarConstraint(dtype)
    return ArrayConstraint(
        dtype,
        len(parameter.shape),
        index_dtype=ct.int32,
        stride_lower_bound_incl=0,
        alias_groups=(parameter.alias,) if parameter.alias in shared else (),
        may_alias_internally=False,
        stride_constant=tuple(size if isinstance(size, int) else None for size in parameter.strides),
        shape_constant=tuple(size if isinstance(size, int) else None for size in parameter.shape),
        stride_divisible_by=tuple(
            divisor if not isinstance(size, int) else 1
            for divisor, size in zip(parameter.stride_divisors, parameter.strides, strict=True)
        ),
        base_addr_divisible_by=parameter.alignment_bytes,
    )


def _assemble(folder: Path, gpu_code: str, opt_level: int) -> subprocess.CompletedProcess[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mismatched packages are told by the failure
        compiler = private._find_compiler_bin()
    environment = {**os.environ, "LD_LIBRARY_PATH": compiler.ld_path, "PATH": compiler.bin_path}
    if not compiler.pass_cuda_home_var:
        # tileiras takes the toolkit's libnvvm where it is told of one, and fails with one that is older than itself.
        environment = {name: text for name, text in environment.items() if name not in TOOLKIT}
    command = [compiler.path, str(folder / BYTECODE), "-o", str(folder / author_code.CUBIN), "--gpu-name", gpu_code,
               f"-O{opt_level}", "--lineinfo", "--remark-format=yaml", "--remarks=all",
               f"--remarks-output-file={folder / REMARKS}"]  # fmt: skip
    return subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)


def _final_plan(
    candidate: Candidate, steps: list[tuple[Matched, Signature] | None], wanted: Wanted, held: cubin.Cubin
) -> LaunchPlan:
    final: list[Step] = []
    for step, found in zip(candidate.plan.steps, steps, strict=True):
        if found is None or step.launch is None:
            final.append(step)
            continue
        matched, asked = found
        table = held.kernel(wanted[asked][0])
        if table is None or table.required_block is None:
            raise PlanFault(
                f"{matched.where}: the cubin does not say how {wanted[asked][0]} is launched", kind="compiler"
            )
        arguments = cutile_plan.arguments(matched, asked)
        check_table(matched.where, arguments, table.parameters)
        launch = Launch(
            grid=step.launch.grid, block=table.required_block, cooperative=step.launch.cooperative,
            programmatic=step.launch.programmatic,
        )  # fmt: skip
        final.append(Step(symbol=table.symbol, arguments=arguments, launch=launch))
    return LaunchPlan(steps=tuple(final), workspaces=candidate.plan.workspaces)


if __name__ == "__main__":
    serve_request(build)
