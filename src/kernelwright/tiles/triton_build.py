"""Builds one candidate of language `triton`: `python -m kernelwright.tiles.triton_build FOLDER`.

Method source: triton.compile(ASTSource(...), target=GPUTarget("cuda", capability, 32)), which needs neither a device
nor a driver (tried with Triton 3.6); its metadata says shared memory, clusters, scratch and tensor descriptors. Not
here: what the types of the arguments are (languages/triton_plan.py).
"""

from __future__ import annotations

import contextlib
import gc
import io
import re
import subprocess
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas, sm_arch_from_capability
from triton.compiler import ASTSource
from triton.compiler.errors import CompilationError
from triton.runtime.jit import JITFunction, get_jit_fn_file_line

from kernelwright.languages import author_code, cubin, device_inspection, triton_plan
from kernelwright.languages import triton as language
from kernelwright.languages.tile_arguments import Matched, PlanFault, blocks, check_table
from kernelwright.languages.triton_plan import Descriptor, Signature
from kernelwright.tiles import ptx
from kernelwright.tiles.serving import import_sources, own_path, own_place, serve_request
from kernelwright.types import (
    Artifact,
    Candidate,
    Failure,
    KernelResources,
    Launch,
    LaunchPlan,
    OptionValue,
    Problem,
    Step,
    Target,
    TensorMap,
    Workspace,
    replace,
)

MOST_SHARED_BYTES = {80: 166_912, 86: 101_376, 89: 101_376, 90: 232_448, 100: 232_448, 103: 232_448, 120: 101_376}
"""Shared memory that a block can have, by Triton's number for the architecture (CUDA C++ programming guide)."""
REMARK = re.compile(r'loc\("?(?P<file>[^":]+)"?:(?P<line>\d+):\d+\): (?:error|remark): (?P<text>.*)')
PLACE = re.compile(r"^(?P<file>[^\s:][^:\n]*\.py):(?P<line>\d+):\d+: error: (?P<text>.*)$", re.MULTILINE)
SPILLS = re.compile(
    r"Compiling entry function '(?P<symbol>[^']+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores",
    re.DOTALL,
)


class Compiled:
    """One kernel as Triton compiled it."""

    def __init__(self, symbol: str, kernel: Any, log: str) -> None:
        self.symbol = symbol
        self.metadata = kernel.metadata
        self.asm = kernel.asm
        self.log = log


def build(problem: Problem, candidate: Candidate, target: Target, folder: Path) -> Artifact | Failure:
    """Returns the artifact of a candidate; the cubin is `folder/kernel.cubin`.

    Raises:
        PlanFault: when plan and source do not fit.
    """
    triton.knobs.nvidia.dump_ptxas_log = True
    module = import_sources(candidate, folder)
    if isinstance(module, Failure):
        return module
    compiled: dict[tuple[str, Signature], Compiled] = {}
    steps: list[tuple[Matched, Signature] | None] = []
    matched = iter(language.match(candidate))
    for step in candidate.plan.steps:
        if step.kind != "kernel":
            steps.append(None)
            continue
        found = next(matched)
        asked = triton_plan.signature(problem, candidate, found, settings=language.settings_of(candidate, found))
        steps.append((found, asked))
        key = (found.kernel.name, replace(asked, settings=(*asked.settings, *_launch_settings(step))))
        if key not in compiled:
            outcome = _compile(module, candidate, target, found, key[1])
            if isinstance(outcome, Failure):
                return outcome
            taken = {other.symbol for other in compiled.values()}
            outcome.symbol = _free(outcome.symbol, taken)
            compiled[key] = outcome
    linked, text, log = _link(tuple(compiled.values()), target, candidate)
    path = folder / author_code.CUBIN
    path.write_bytes(linked)
    held = cubin.read(path)
    if fault := device_inspection.inspect(candidate, held, text):
        return fault
    plan = _final_plan(problem, candidate, steps, compiled, held)
    spilled = {found["symbol"]: int(found["stores"]) for found in SPILLS.finditer(log)}
    resources = cubin.resources(held, spilled)
    log = _account(resources, plan, log)
    return Artifact(candidate="", key="", blob="", entry="", plan=plan, resources=resources, log=log)


def _launch_settings(step: Step) -> tuple[tuple[str, OptionValue], ...]:
    launch = step.launch
    flags = (("launch_pdl", bool(launch and launch.programmatic)),
             ("launch_cooperative_grid", bool(launch and launch.cooperative)))  # fmt: skip
    return tuple((name, True) for name, on in flags if on)


def _free(symbol: str, taken: set[str]) -> str:
    number = 2
    name = symbol
    while name in taken:
        name = f"{symbol}_{number}"
        number += 1
    return name


# ----------------------------------------------------------------------------- compiling


def _compile(
    module: ModuleType, candidate: Candidate, target: Target, matched: Matched, asked: Signature
) -> Compiled | Failure:
    function = getattr(module, matched.kernel.name, None)
    if not isinstance(function, JITFunction):
        message = (
            f"{matched.where}: {matched.kernel.name} is a {type(function).__name__}, not a function under @triton.jit"
        )
        return Failure(stage="build", kind="symbol", message=message, location=matched.kernel.location)
    capability = language.CAPABILITIES[target.architecture]
    divided = [["tt.divisibility", triton_plan.DIVISOR]]
    attributes = {(function.arg_names.index(name),): divided for name in asked.divisible}
    source = ASTSource(
        fn=function,
        signature=dict(asked.types),
        constexprs={name: _constant(given) for name, given in asked.constants},
        attrs=attributes,
    )
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            kernel = triton.compile(
                source, target=GPUTarget("cuda", capability, 32), options=_options(candidate, asked)
            )
    except Exception as error:  # noqa: BLE001  (whatever Triton raises about the author's source)
        return _fault(error, matched, printed.getvalue(), candidate)
    outcome = Compiled(kernel.metadata.name, kernel, printed.getvalue())
    return _too_large(outcome, matched, capability) or outcome


def _constant(given: OptionValue) -> Any:
    """A constant's value; `tl.float32` as text means Triton's dtype."""
    if isinstance(given, str) and given.startswith("tl."):
        found = getattr(triton.language, given[3:], None)
        if isinstance(found, triton.language.dtype):
            return found
    return given


def _options(candidate: Candidate, asked: Signature) -> dict[str, OptionValue]:
    chosen = dict(asked.settings)
    given = dict(candidate.options)
    # Stated although it is the default: Triton says that the default will change.
    chosen["enable_fp_fusion"] = given.get("fp_fusion", True)
    if "dot_precision" in given:
        chosen["default_dot_input_precision"] = given["dot_precision"]
    return chosen


def _too_large(compiled: Compiled, matched: Matched, capability: int) -> Failure | None:
    most = MOST_SHARED_BYTES.get(capability, 101_376)
    if compiled.metadata.shared <= most:
        return None
    message = (
        f"{matched.where}: {compiled.metadata.shared} bytes of shared memory, a block can have {most}; "
        "smaller tiles or fewer stages need less"
    )
    return Failure(stage="build", kind="resources", message=message, location=matched.kernel.location)


# ------------------------------------------------------------------------------- linking


def _link(compiled: tuple[Compiled, ...], target: Target, candidate: Candidate) -> tuple[bytes, str, str]:
    """One cubin with all kernels, its PTX, and what ptxas said."""
    if len(compiled) == 1:
        return compiled[0].asm["cubin"], compiled[0].asm["ptx"], compiled[0].log
    capability = language.CAPABILITIES[target.architecture]
    text = ptx.merge(tuple((kernel.symbol, kernel.asm["ptx"]) for kernel in compiled))
    with tempfile.TemporaryDirectory() as place:
        source, made = Path(place) / "merged.ptx", Path(place) / "merged.cubin"
        source.write_text(text)
        fused = dict(candidate.options).get("fp_fusion", True)
        command = [get_ptxas(capability).path, "-lineinfo", *([] if fused else ["--fmad=false"]), "-v",
                   f"--gpu-name={sm_arch_from_capability(capability)}", str(source), "-o", str(made)]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PlanFault(f"the kernels cannot be put into one cubin: {done.stderr[:300]}", kind="compiler")
        return made.read_bytes(), text, done.stderr


def _final_plan(
    problem: Problem,
    candidate: Candidate,
    steps: list[tuple[Matched, Signature] | None],
    compiled: dict[tuple[str, Signature], Compiled],
    held: cubin.Cubin,
) -> LaunchPlan:
    final: list[Step] = []
    maps: dict[str, TensorMap] = {}
    workspaces = list(candidate.plan.workspaces)
    for step, found in zip(candidate.plan.steps, steps, strict=True):
        if found is None or step.launch is None:
            final.append(step)
            continue
        matched, asked = found
        kernel = compiled[matched.kernel.name, replace(asked, settings=(*asked.settings, *_launch_settings(step)))]
        table = held.kernel(kernel.symbol)
        if table is None:
            raise PlanFault(f"{matched.where}: the cubin has no kernel {kernel.symbol}", kind="compiler")
        scratch = _scratch(problem, matched, step.launch, kernel.metadata)
        if scratch:
            workspaces.append(scratch)
        arguments, made = triton_plan.arguments(
            problem, candidate, matched, asked=asked, descriptors=_descriptors(kernel.metadata),
            scratch=scratch.name if scratch else "",
        )  # fmt: skip
        check_table(matched.where, arguments, table.parameters)
        maps |= {tensor_map.name: tensor_map for tensor_map in made}
        final.append(
            Step(symbol=kernel.symbol, arguments=arguments, launch=_launch(step.launch, kernel.metadata, table))
        )
    return LaunchPlan(steps=tuple(final), workspaces=tuple(workspaces), tensor_maps=tuple(maps.values()))


def _descriptors(metadata: Any) -> tuple[Descriptor, ...]:
    return tuple(
        Descriptor(block=tuple(found["block_size"]), swizzle=found["swizzle"], packed=bool(found["fp4_padded"]))
        for found in metadata.tensordesc_meta
    )


def _scratch(problem: Problem, matched: Matched, launch: Launch, metadata: Any) -> Workspace | None:
    if metadata.profile_scratch_size:
        raise PlanFault(f"{matched.where}: needs memory for a profiler, which no plan can give", kind="unsupported")
    if not metadata.global_scratch_size:
        return None
    count = blocks(problem, launch.grid, matched.where)
    if count is None:
        message = (
            f"{matched.where}: makes tensor descriptors itself, which needs memory for every block, but its grid "
            "depends on an axis; bind the descriptor as a tensor map instead"
        )
        raise PlanFault(message, kind="unsupported", location=matched.kernel.location)
    number = matched.where.split()[1]
    size = count * metadata.num_ctas * metadata.global_scratch_size
    return Workspace(name=f"kw_scratch_{number}", size_bytes=size)


def _launch(given: Launch, metadata: Any, table: cubin.Kernel) -> Launch:
    threads = table.required_block or (32 * metadata.num_warps, 1, 1)
    x, y, z = given.grid
    count = metadata.num_ctas
    if count > 1:  # Triton's grid counts clusters
        x = x * count if isinstance(x, int) else f"({x}) * {count}"
    return Launch(
        grid=(x, y, z),
        block=threads,
        cluster=(count, 1, 1),
        shared_bytes=metadata.shared,
        cooperative=given.cooperative,
        programmatic=given.programmatic,
    )


def _account(resources: tuple[KernelResources, ...], plan: LaunchPlan, log: str) -> str:
    dynamic = {step.symbol: step.launch.shared_bytes for step in plan.steps if step.launch}
    lines = [
        f"{found.symbol}: {found.registers} registers, {found.spill_bytes} bytes spilled, "
        f"{found.stack_bytes} bytes of stack, "
        f"{found.shared_bytes} bytes of static and {dynamic.get(found.symbol, 0)} of dynamic shared memory"
        for found in resources
    ]
    return "\n".join([*lines, log.strip()])[: author_code.DETAIL_LIMIT]


# -------------------------------------------------------------------------------- errors


def _fault(error: Exception, matched: Matched, printed: str, candidate: Candidate) -> Failure:
    """What Triton raised, with the author's line and, as detail, the marked source text."""
    innermost: BaseException = error
    while isinstance(innermost.__cause__, CompilationError):
        innermost = innermost.__cause__
    if isinstance(innermost, CompilationError):
        message = (innermost.error_message or _reason(innermost) or "cannot be compiled").strip()
        return Failure(
            stage="build",
            kind="syntax",
            message=f"{matched.where}: {message.splitlines()[0]}"[:400],
            location=_place(innermost, matched, candidate),
            detail=f"{error}\n{printed}"[: author_code.DETAIL_LIMIT],
        )
    text = f"{type(error).__name__}: {error}"
    found = REMARK.search(printed) or PLACE.search(printed)
    location = (
        f"{own_path(found['file'], candidate) or found['file']}:{found['line']}"
        if found
        else own_place(error, candidate)
    )
    said = found["text"] if found else text
    kind = "compiler" if "PassManager" in text or "ptxas" in text else "syntax"
    message = f"{matched.where}: {said.splitlines()[0]}"[:400]
    return Failure(stage="build", kind=kind, message=message, location=location or matched.kernel.location,
                   detail=f"{text}\n{printed}"[: author_code.DETAIL_LIMIT])  # fmt: skip


def _reason(error: CompilationError) -> str:
    return str(error.__cause__) if error.__cause__ else ""


def _place(error: CompilationError, matched: Matched, candidate: Candidate) -> str:
    """file:line of the node that an error is about: Triton counts lines from the `def` of its function."""
    line = getattr(error.node, "lineno", None)
    if line is None:
        return matched.kernel.location
    for function in _functions():
        if function.src == error.src:
            path, begin = get_jit_fn_file_line(function)
            return f"{own_path(path, candidate) or matched.kernel.path}:{begin + line - 1}"
    return f"{matched.kernel.path}:{matched.kernel.line + line - 1}"


def _functions() -> list[Any]:
    return [item for item in gc.get_objects() if isinstance(item, JITFunction)]


if __name__ == "__main__":
    serve_request(build)
