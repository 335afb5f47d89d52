"""The real device: cubins loaded and launched through the driver, on torch's context and one stream of our own.

torch's allocator gives all memory, torch's graphs do all capturing (so that baselines and candidates are
captured alike), and the driver's events and results say what happened.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kernelwright import environment
from kernelwright.judge.device import driver, image, library, passes
from kernelwright.judge.device.executor import BoundPlan, Loaded, Span
from kernelwright.judge.device.faults import fault_of, refused
from kernelwright.judge.device.limits import Geometry, KernelFacts, launch_fault, parameters_fault
from kernelwright.judge.device.packing import pack_arguments, sizes, tensor_map_call
from kernelwright.types import Candidate, LaunchPlan, Step

OWN_SOURCES = ("own_kernels.cu", "own_passes.cu")
OWN_KERNELS = ("kw_probe", "kw_dirty", "kw_empty", "kw_empty_programmatic")
PROBE_WORDS = 1 << 16
FLUSH_FACTOR = 2
SCRUB_BYTE = 0xA5


@dataclass(frozen=True, slots=True)
class KernelCall:
    """One kernel with everything that a launch takes."""

    symbol: str
    function: Any
    config: Any
    parameters: driver.Parameters


@dataclass(frozen=True, slots=True)
class FillCall:
    """One memset."""

    address: int
    size: int
    byte: int


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """One call of a vendor library, through torch."""

    call: Callable[[], None]


class GraphReplay:
    """A captured graph."""

    def __init__(self, graph: torch.cuda.CUDAGraph, kept: object) -> None:
        self._graph, self._kept = graph, kept

    def launch(self) -> None:
        """Enqueues the graph."""
        self._graph.replay()


class CudaExecutor:
    """One CUDA device, whose primary context this process holds.

    Raises:
        DeviceFault: when the device does not pass its probe.
    """

    def __init__(self, ordinal: int = 0, *, bare: bool = False) -> None:
        torch.cuda.init()  # type: ignore[no-untyped-call]
        self.device = torch.device("cuda", ordinal)
        torch.cuda.set_device(self.device)
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        torch.cuda.set_stream(self.stream)
        self._handle = int(self.stream.cuda_stream)
        self._own: Any = None
        self._watch = driver.Stopwatch(self._handle)
        self.limits = driver.limits_of(ordinal)
        if bare:
            return
        source = "\n".join(Path(__file__).with_name(name).read_text() for name in OWN_SOURCES)
        self._own = driver.load_module(own_code(source, self.limits.architecture))
        self._kernels = {name: driver.kernel_of(self._own, name)[0] for name in (*OWN_KERNELS, *passes.NAMES)}
        self._configs, self._allowed = dict[tuple[str, Geometry], Any](), dict[str, int]()
        passes.use(passes.Passes(self._launch_pass, self.device, self.limits.multiprocessors))
        self._flush = torch.zeros(
            FLUSH_FACTOR * max(self.limits.cache_bytes, 1 << 20), dtype=torch.uint8, device=self.device
        )
        self._turn = 0
        self.probe()

    # ------------------------------------------------------------------------------ code

    def load(self, blob: bytes, candidate: Candidate) -> Loaded:
        """Loads a candidate's cubin (none for plans of library calls only) and the facts of its kernels."""
        symbols = dict.fromkeys(step.symbol for step in candidate.plan.steps if step.kind == "kernel")
        if not symbols:
            return Loaded(None, {})
        if broken := image.fault(blob, self.limits.architecture):
            raise refused("load", *broken)
        module = driver.load_module(blob)
        return Loaded(module, {symbol: driver.kernel_of(module, symbol) for symbol in symbols})

    def unload(self, loaded: Loaded) -> None:
        """Unloads the module."""
        if loaded.handle is not None:
            driver.unload_module(loaded.handle)

    def bind(
        self,
        loaded: Loaded,
        plan: LaunchPlan,
        addresses: Mapping[str, int],
        views: Mapping[str, torch.Tensor],
        axes: Mapping[str, int],
    ) -> BoundPlan:
        """Checks every launch against device and kernel, encodes tensor maps and packs arguments."""
        maps = {m.name: driver.tensor_map(tensor_map_call(m, addresses, axes), m.name) for m in plan.tensor_maps}
        calls: list[KernelCall | FillCall | LibraryCall] = []
        for number, step in enumerate(plan.steps):
            if step.kind == "memset":
                view = views[step.arguments[0].name]
                calls.append(FillCall(addresses[step.arguments[0].name], view.numel() * view.element_size(), step.byte))
            elif step.kind == "library":
                calls.append(LibraryCall(library.call_of(step, views)))
            else:
                packed = pack_arguments(step, addresses, axes, maps)
                function, config = self._launch_of(loaded, number, step, packed, axes)
                calls.append(KernelCall(step.symbol, function, config, driver.Parameters(packed)))
        return BoundPlan(tuple(calls))

    def _launch_of(
        self, loaded: Loaded, number: int, step: Step, packed: tuple[bytes, ...], axes: Mapping[str, int]
    ) -> tuple[Any, Any]:
        """Returns kernel and configuration of a step, checked once for all slots."""
        key = (number, tuple(sorted(axes.items())))
        if key not in loaded.checked:
            function, facts = loaded.kernels[step.symbol]
            if fault := parameters_fault(step.symbol, packed, facts.parameters):
                raise refused("load", "parameters", fault)
            geometry = geometry_of(step, axes, first=number == 0)
            if fault := launch_fault(geometry, facts, self.limits):
                raise refused("run", "launch", f"{step.symbol}: {fault}")
            driver.allow(function, geometry)
            config = driver.configuration(geometry, self._handle)
            self._check_residence(function, facts, geometry, config)
            loaded.checked[key] = (function, config)
        return loaded.checked[key]  # type: ignore[no-any-return]

    def _check_residence(self, function: Any, facts: KernelFacts, geometry: Geometry, config: Any) -> None:
        if geometry.cluster_blocks > 1 and driver.resident_clusters(function, config) < 1:
            message = f"{facts.symbol}: no cluster of {geometry.cluster_blocks} such blocks fits on the device"
            raise refused("run", "resources", message)
        if geometry.cooperative:
            most = driver.resident_blocks(function, geometry) * self.limits.multiprocessors
            if geometry.blocks > most:
                message = f"{facts.symbol}: a cooperative grid of {geometry.blocks} blocks; {most} can run at once"
                raise refused("run", "resources", message)

    # ------------------------------------------------------------------------------ running

    def issue(self, bound: BoundPlan) -> None:
        """Enqueues one execution of a plan."""
        for made in bound.calls:
            if isinstance(made, KernelCall):
                driver.launch(made.config, made.function, made.parameters, made.symbol)
            elif isinstance(made, FillCall):
                driver.fill(made.address, made.size, made.byte, self._handle)
            else:
                made.call()

    def capture(self, work: Callable[[], object]) -> GraphReplay:
        """Captures what `work` enqueues; its result is kept alive with the graph."""
        graph = torch.cuda.CUDAGraph()
        # Other threads of torch may allocate meanwhile: only this thread's calls can spoil the capture.
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            kept = work()
        except BaseException:
            end_broken_capture(graph)
            raise
        graph.capture_end()
        return GraphReplay(graph, kept)

    def timed(self, launch: Callable[[], object], *, deadline_s: float, during: str) -> Span:
        """Times what `launch` enqueues, by events and by the host's clock."""
        begun = time.perf_counter()
        self._watch.start()
        launch()
        self._watch.stop()
        self._watch.wait(deadline_s=deadline_s, during=during)
        return Span(self._watch.elapsed_us(), 1e6 * (time.perf_counter() - begun))

    def wait(self, *, deadline_s: float, during: str) -> None:
        """Waits for everything that was enqueued."""
        self._watch.stop()
        self._watch.wait(deadline_s=deadline_s, during=during)

    def flush(self) -> None:
        """Overwrites a buffer of twice the level-2 cache, with another value each time."""
        self._turn = (self._turn + 1) % 251
        self._flush.fill_(self._turn)

    def perturb(self, byte: int) -> None:
        """Runs a kernel that fills all shared memory of every multiprocessor, and many registers, with a pattern."""
        shared = self.limits.shared_bytes // 4 * 4
        geometry = Geometry((4 * self.limits.multiprocessors, 1, 1), (256, 1, 1), (1, 1, 1), shared, False, False)
        pattern = int.from_bytes(bytes([byte]) * 4, "little")
        packed = (pattern.to_bytes(4, "little"), (shared // 4).to_bytes(4, "little"), bytes(8))
        self._launch_own("kw_dirty", geometry, packed)

    def scrub(self) -> None:
        """Overwrites every block that torch's allocator holds but nobody uses.

        Blocks of captured graphs' own pools are among them; a replay writes them before it reads them.
        """
        for segment in torch.cuda.memory_snapshot():  # type: ignore[no-untyped-call]
            address = segment["address"]
            for block in segment["blocks"]:
                if block["state"] == "inactive":
                    driver.fill(block.get("address", address), block["size"], SCRUB_BYTE, self._handle)
                address += block["size"]

    def free_bytes(self) -> int:
        """Returns the device memory that can still be had."""
        free, _ = torch.cuda.mem_get_info(self.device)
        reserved = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        most = environment.device_bytes()
        own = free + reserved if most is None else min(free + reserved, max(0, most - torch.cuda.memory_allocated()))
        return int(own)

    # ------------------------------------------------------------------------------ the device itself

    def probe(self) -> None:
        """Allocates, launches and compares.

        Raises:
            DeviceFault: when the device gives no right answer.
        """
        out = torch.zeros(PROBE_WORDS, dtype=torch.int32, device=self.device)
        geometry = Geometry((PROBE_WORDS // 256, 1, 1), (256, 1, 1), (1, 1, 1), 0, False, False)
        key = 0x5EED
        packed = (out.data_ptr().to_bytes(8, "little"), PROBE_WORDS.to_bytes(4, "little"), key.to_bytes(4, "little"))
        self._launch_own("kw_probe", geometry, packed)
        self.wait(deadline_s=5.0, during="probing the device")
        wanted = (torch.arange(PROBE_WORDS, device=self.device) * 2654435761 ^ key) & 0xFFFFFFFF
        if not torch.equal(out.long() & 0xFFFFFFFF, wanted):
            raise fault_of("CUDA_ERROR_CONTAINED", "probing the device")

    def issue_empty(self, *, programmatic: bool) -> None:
        """Enqueues the smallest kernel, to find out what a launch costs."""
        geometry = Geometry((1, 1, 1), (32, 1, 1), (1, 1, 1), 0, False, programmatic)
        self._launch_own("kw_empty_programmatic" if programmatic else "kw_empty", geometry, ())

    def _launch_pass(
        self, name: str, grid: tuple[int, int], threads: int, shared: int, packed: tuple[bytes, ...]
    ) -> None:
        self._launch_own(name, Geometry((*grid, 1), (threads, 1, 1), (1, 1, 1), shared, False, False), packed)

    def _launch_own(self, name: str, geometry: Geometry, packed: tuple[bytes, ...]) -> None:
        config = self._configs.get((name, geometry))
        if config is None:
            if geometry.shared_bytes > self._allowed.get(name, 0):
                driver.allow(self._kernels[name], geometry)
                self._allowed[name] = geometry.shared_bytes
            config = self._configs[name, geometry] = driver.configuration(geometry, self._handle)
        driver.launch(config, self._kernels[name], driver.Parameters(packed), name)


def own_code(source: str, architecture: int) -> bytes:
    """Returns the cubin of our own kernels, kept from an earlier process: a replaced worker must be ready at once."""
    name = hashlib.sha256(f"{architecture} {driver.compiler_version()} {source}".encode()).hexdigest()[:24]
    path = environment.home() / "devices" / f"own-{name}.cubin"
    with contextlib.suppress(OSError):
        kept = path.read_bytes()
        if image.fault(kept, architecture) is None:
            return kept
    made = driver.compile_own(source, architecture)
    with contextlib.suppress(OSError):  # a folder that cannot be written only means compiling again
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(made)
        part.replace(path)
    return made


def bare_executor() -> CudaExecutor:
    """Returns an executor that loads and runs, and has no kernels of its own."""
    return CudaExecutor(bare=True)


def end_broken_capture(graph: torch.cuda.CUDAGraph) -> None:
    """Ends a capture that failed, so that the stream can be used again."""
    try:
        graph.capture_end()
    except RuntimeError:
        return


def geometry_of(step: Step, axes: Mapping[str, int], *, first: bool = False) -> Geometry:
    """Returns a step's launch with its sizes evaluated.

    A plan's first step never starts early: what comes before it is another call.

    Raises:
        DeviceFault: when the step has no launch, or a size no value.
    """
    launch = step.launch
    if launch is None:
        raise refused("plan", "plan", f"{step.symbol!r} has no launch")
    grid = sizes(launch.grid, axes, f"the grid of {step.symbol!r}")
    return Geometry(
        (grid[0], grid[1], grid[2]),
        launch.block,
        launch.cluster,
        launch.shared_bytes,
        launch.cooperative,
        launch.programmatic and not first,
    )
