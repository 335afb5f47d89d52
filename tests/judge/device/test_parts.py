"""The small parts of the device judge: sealing, fresh contents, floors, conditions, memory checkers, faults, rounds."""

from __future__ import annotations

import ast
import itertools
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.judge.device.fake_device import LIMITS, FakeExecutor

import kernelwright
from kernelwright.judge.correctness import FloatBound
from kernelwright.judge.device import contents, floors, memory_check, rounds
from kernelwright.judge.device.conditions import Conditions, summarise
from kernelwright.judge.device.contents import ALIKE, DeviceRefresher
from kernelwright.judge.device.faults import KINDS, fault_of, fault_of_torch, hang
from kernelwright.judge.device.sealing import SealedBounds
from kernelwright.judge.policies import DEVICE_MEASURE, DEVICE_SCREEN
from kernelwright.types import Check, TensorSpec, ToleranceRule, replace

CPU = torch.device("cpu")


def make_bound(elements: int = 501) -> FloatBound:
    truth = torch.linspace(0.5, 2.0, elements, dtype=torch.float64)
    return FloatBound("out", truth=truth, own=truth.float(), nearby=[truth], rule=ToleranceRule(), terms=1.0)


def test_sealed_bounds_tell_nothing_and_come_back_whole() -> None:
    bound, plain = make_bound(), make_bound()
    sealed = SealedBounds((bound,), CPU)
    for name, item in vars(plain).items():
        if isinstance(item, torch.Tensor) and item.numel() == 501:
            same = (getattr(bound, name).reshape(-1).view(torch.uint8) == item.reshape(-1).view(torch.uint8)).double()
            # One byte in 256 is the same by chance.
            assert float(same.mean()) < 0.05, name
    with sealed as (opened,):
        assert isinstance(opened, FloatBound)
        assert torch.equal(opened.truth, plain.truth)
        assert opened.check(plain.truth.float()).passed
        assert not opened.check(plain.truth.float() * 1.01).passed
    assert not torch.equal(bound.truth, plain.truth)


def test_two_seals_are_not_alike() -> None:
    first, second = make_bound(), make_bound()
    SealedBounds((first,), CPU)
    SealedBounds((second,), CPU)
    assert float((first.truth.view(torch.int64) == second.truth.view(torch.int64)).double().mean()) < 0.01


X = TensorSpec(name="x", shape=(4, 50), dtype="float32", role="input")
LIMITED = TensorSpec(name="p", shape=(50,), dtype="float32", role="input", low=0.0, high=1.0)
INDEX = TensorSpec(name="i", shape=(50,), dtype="int64", role="input")


def test_fresh_contents_are_never_those_before() -> None:
    draws = [(torch.randn(4, 50), torch.rand(50), torch.randint(0, 100, (50,))) for _ in range(3)]
    made = DeviceRefresher((X, LIMITED, INDEX), draws, (torch.randn(7),), 5)
    made.wild = True
    stacks = (torch.zeros(16, 4, 50), torch.zeros(16, 50), torch.zeros(16, 50, dtype=torch.int64))
    parameter = torch.zeros(7)
    seen: list[torch.Tensor] = []
    whole: list[torch.Tensor] = [draw[2] for draw in draws]
    kinds: list[str] = []
    assert made.mixes
    for _ in range(2):
        kinds += made.refresh(stacks, list(range(1, 16)))
        made.refresh_parameters((parameter,))
        seen += [stacks[0][slot].clone() for slot in range(1, 16)]
        assert bool((stacks[1][1:] >= 0.0).all())
        assert bool((stacks[1][1:] <= 1.0).all())
        whole += [stacks[2][slot].clone() for slot in range(1, 16)]
    assert bool((stacks[0][0] == 0.0).all())
    assert set(kinds) == {"plain", "wild", "nan", ALIKE}
    for kind, tensor in zip(kinds, seen, strict=True):
        assert bool(tensor.isnan().any()) == (kind == "nan")
        assert bool((tensor.abs() == 200.0).any()) == (kind == "wild")
    assert len({tuple(tensor.tolist()) for tensor in whole}) == len(whole)
    given = {number for draw in draws for number in draw[2].tolist()}
    assert all(set(tensor.tolist()) <= given for tensor in whole)
    for i, tensor in enumerate(seen):  # one of two tensors may stay
        others = torch.stack(seen[:i] + seen[i + 1 :])
        assert float((others == tensor).double().mean(dim=(1, 2)).max()) < (1.1 if ALIKE in kinds[i : i + 2] else 0.1)
    assert bool(parameter.any())


def test_a_slot_that_is_alone_resembles_what_it_held_and_others_the_one_before_them() -> None:
    draws = [(torch.randn(4, 50), torch.randn(4, 50)) for _ in range(3)]
    made = DeviceRefresher((X, replace(X, name="y")), draws, (torch.randn(7),), 5)
    stacks = (torch.zeros(16, 4, 50), torch.zeros(16, 4, 50))
    same = torch.zeros(2)
    made.refresh(stacks, [3])
    for _ in range(40):
        before = [stack[3].clone() for stack in stacks]
        made.refresh(stacks, [3])
        equal = [b == stack[3] for b, stack in zip(before, stacks, strict=True)]
        assert not all(bool(e.all()) for e in equal)
        same += torch.tensor([float(e[0, 0] & e[-1, -1]) for e in equal])
    assert bool((same > 10).all())
    kinds = made.refresh(stacks, list(range(16)))
    alike = [slot for slot, kind in enumerate(kinds) if kind == ALIKE]
    assert 0 < len(alike) <= 4
    shares = [float((stack[slot] == stack[slot - 1]).double().mean()) for slot in alike for stack in stacks]
    assert max(shares) > 0.3


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_large_tensors_vary_as_small_ones_do(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "LARGEST_CHUNK", 1)
    wide, limited = replace(X, dtype=dtype), replace(LIMITED, dtype=dtype)
    draw = (torch.randn(4, 50).to(getattr(torch, dtype)), torch.rand(50).to(getattr(torch, dtype)))
    stacks = tuple(torch.zeros((8, *t.shape), dtype=t.dtype) for t in draw)
    made = DeviceRefresher((wide, limited), [draw], (), 5)
    monkeypatch.setattr(made, "_kinds", lambda count: ["nan"] * count)
    made.refresh(stacks, list(range(8)))
    for given, stack in zip(draw, stacks, strict=True):
        factors = (stack.double() / given.double()).nan_to_num(1.0)
        inside = ((factors > 0.49) & (factors < 1.51)).double().mean()
        assert float(inside) > 0.85  # all but those that were exchanged
        assert not any(torch.equal(one, other) for one, other in itertools.pairwise(stack))
        assert dtype != "float64" or bool((stack != stack.float().double()).double().mean() > 0.9)
    assert bool(((stacks[1] >= 0) & (stacks[1] <= 1)).all())


def test_parameters_change_at_their_ends_only_as_a_whole() -> None:
    made = DeviceRefresher((X,), [(torch.randn(4, 50),)], (torch.randn(7),), 5)
    parameter, partial = torch.zeros(7), 0
    made.refresh_parameters((parameter,))
    for _ in range(30):
        before = parameter.clone()
        made.refresh_parameters((parameter,))
        assert not torch.equal(before, parameter)
        assert bool(before[0] == parameter[0]) == bool(before[-1] == parameter[-1])
        partial += bool(before[0] == parameter[0])
    assert partial == 20


def test_contents_without_free_inputs_are_plain() -> None:
    made = DeviceRefresher((INDEX,), [(torch.arange(50),), (torch.arange(50) + 1,)], (), 1)
    assert set(made.refresh((torch.zeros(8, 50, dtype=torch.int64),), list(range(8)))) == {"plain"}


FLOORS = floors.Floors(
    device="fake device", driver=13000, when="", copy={str(1 << 20): 9e12, str(1 << 28): 4e12}, read=4.4e12,
    products={"bfloat16": 8e14, "float32": 5e13},
)  # fmt: skip


def test_floors_take_the_larger_of_bytes_and_operations() -> None:
    assert FLOORS.bandwidth == 4.4e12
    assert floors.floor_us(FLOORS, bytes_moved=44_000_000, operations=None) == pytest.approx(10.0)
    assert floors.floor_us(FLOORS, bytes_moved=44_000_000, operations=80 * 10**9) == pytest.approx(100.0)


def test_writes_that_may_stay_in_the_cache_do_not_count_for_a_refusal() -> None:
    given = {"bytes_read": 4_400_000, "bytes_written": 4_400_000, "operations": None, "calls": 2}
    assert floors.refusal_us(FLOORS, cache_bytes=0, **given) == pytest.approx(2.0 / floors.MARGIN)  # type: ignore[arg-type]
    assert floors.refusal_us(FLOORS, cache_bytes=1 << 30, **given) == pytest.approx(1.0 / floors.MARGIN)  # type: ignore[arg-type]


def test_floors_are_stored_for_each_device_and_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    assert floors.stored("fake device", 13000) is None
    floors.store(FLOORS)
    assert floors.stored("fake device", 13000) == FLOORS
    assert floors.stored("fake device", 13010) is None
    floors.path_of("fake device", 13000).write_text("{}")
    assert floors.stored("fake device", 13000) is None


def test_measuring_floors_asks_the_devices_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floors, "SIZES", (1 << 10, 1 << 12))
    empties: list[bool] = []
    found = floors.measure(FakeExecutor({}, other_us=10.0), 13000, empty=empties.append)
    # Sixteen copies of 1 KiB, each read and written, in 10 µs.
    assert found.copy["1024"] == pytest.approx(16 * 2 * 1024 / 10e-6)
    assert found.read == pytest.approx(4096 / 10e-6)
    assert found.launch_us == pytest.approx(10.0 / floors.LAUNCHES)
    assert set(empties) == {True, False}


def test_conditions_are_read_of_the_device_at_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def handle_of(address: bytes) -> str:
        asked.append(address)
        return "second"

    nvml = types.SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByPciBusId=handle_of,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        nvmlDeviceGetClockInfo=lambda handle, kind: {("second", 1): 1980, ("second", 2): 3201}[handle, kind],
        nvmlDeviceGetPowerUsage=lambda handle: 350_000,
        nvmlDeviceGetTemperature=lambda handle, kind: 41,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda handle: 0x1,
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    made = Conditions("00000000:9D:00.0")
    made.read()
    assert asked == [b"00000000:9D:00.0"]
    found = dict(made.summary())
    assert (found["sm_clock_mhz"], found["memory_clock_mhz"], found["power_w"]) == (1980.0, 3201.0, 350.0)
    nothing = Conditions("")
    nothing.read()
    assert nothing.summary() == ()


def test_conditions_are_summed_up() -> None:
    readings = [
        (1980.0, 3201.0, 500.0, 40.0, 0x1),
        (1700.0, 3201.0, 690.0, 55.0, 0x4),
        (1900.0, 3201.0, 600.0, 50.0, 0),
    ]
    assert dict(summarise(readings)) == {
        "sm_clock_mhz": 1900.0,
        "sm_clock_min_mhz": 1700.0,
        "memory_clock_mhz": 3201.0,
        "power_w": 600.0,
        "temperature_c": 55.0,
        "throttle_reasons": 4.0,
        "readings": 3.0,
    }
    assert summarise([]) == ()


CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
WRITE = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at add(const float *, const float *, float *)+0x90
=========     by thread (0,0,0) in block (0,0,0)
========= ERROR SUMMARY: 1 error
"""
RACE = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at kernel+0x70 and Read access at kernel+0x90 [4 hazards]
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
HAZARD = """========= COMPUTE-SANITIZER
========= {kind}: Potential RAW hazard detected at __shared__ 0x200 in block (0,0,0) :
=========     Write Thread (64,0,0) at softmax+0x1f0
========= RACECHECK SUMMARY: 20 hazards displayed ({errors} errors, {warnings} warnings)
"""
REFUSED_CALL = 'Program hit {} due to "{}" on CUDA API call to cuGetProcAddress_v2.'
REFUSALS = f"""========= COMPUTE-SANITIZER
========= {REFUSED_CALL.format("CUDA_ERROR_INVALID_VALUE (error 1)", "invalid argument")}
=========     Saved host backtrace up to driver entry point at error
=========         Host Frame: [0x7f] in libcuda.so.1
========= {REFUSED_CALL.format("CUDA_ERROR_NOT_FOUND (error 500)", "named symbol not found")}
"""
REFUSED = "========= COMPUTE-SANITIZER\n========= Error: Device not supported. Please refer to the documentation\n"


def test_a_checkers_output_is_read() -> None:
    clean = memory_check.read("memcheck", 0, CLEAN)
    assert isinstance(clean, Check)
    assert clean.passed
    written = memory_check.read("memcheck", 86, WRITE)
    assert isinstance(written, Check)
    assert not written.passed
    assert "Invalid __global__ write of size 4 bytes at add(" in written.evidence
    race = memory_check.read("racecheck", 86, RACE)
    assert isinstance(race, Check)
    assert not race.passed
    assert "Race reported" in race.evidence
    hazard = memory_check.read("racecheck", 86, HAZARD.format(kind="Error", errors=56, warnings=196))
    assert isinstance(hazard, Check)
    assert hazard.evidence.startswith("56 findings; first: Potential RAW hazard detected at __shared__ 0x200")
    within_a_warp = memory_check.read("racecheck", 0, HAZARD.format(kind="Warning", errors=0, warnings=4))
    assert isinstance(within_a_warp, Check)
    assert within_a_warp.passed
    (option,) = [w for w in memory_check.command("checker", "racecheck", Path("r.json")) if w.startswith("--racecheck")]
    assert option == "--racecheck-report"


def test_calls_that_the_driver_refused_are_no_findings_of_the_kernel() -> None:
    clean = memory_check.read("memcheck", 86, REFUSALS + "========= ERROR SUMMARY: 2 errors\n")
    assert isinstance(clean, Check)
    assert clean.passed
    written = memory_check.read("memcheck", 86, REFUSALS + WRITE.replace("SUMMARY: 1 error", "SUMMARY: 3 errors"))
    assert isinstance(written, Check)
    assert not written.passed
    assert written.evidence.startswith("1 findings; first: Invalid __global__ write of size 4 bytes at add(")


def test_only_the_checker_that_knows_the_option_is_told_to_leave_refused_calls_out() -> None:
    lines = {tool: memory_check.command("checker", tool, Path("replay.json")) for tool in memory_check.TOOLS}
    assert [tool for tool, line in lines.items() if "--report-api-errors" in line] == ["memcheck"]


@pytest.mark.parametrize(("status", "text"), [(1, REFUSED), (1, ""), (0, "Traceback\nValueError: no\n")])
def test_a_checker_that_did_not_run_is_a_note_and_no_verdict(status: int, text: str) -> None:
    found = memory_check.read("initcheck", status, text)
    assert isinstance(found, str)
    assert "initcheck did not run" in found


def test_faults_are_named_and_told_apart() -> None:
    assert len(KINDS) >= 20
    fault = fault_of("CUDA_ERROR_MISALIGNED_ADDRESS", "running")
    assert (fault.failure.stage, fault.failure.kind, fault.fatal) == ("run", "misaligned", True)
    assert not fault_of("CUDA_ERROR_NO_BINARY_FOR_GPU", "loading").fatal
    assert fault_of("CUDA_ERROR_ECC_UNCORRECTABLE", "running").failure.stage == "judge"
    assert fault_of("CUDA_ERROR_NEVER_HEARD_OF", "running").fatal
    assert hang("running", 2.0).failure.kind == "timeout"
    found = fault_of_torch(RuntimeError("CUDA error: an illegal memory access was encountered"), "judging")
    assert found is not None
    assert found.failure.kind == "memory"
    assert fault_of_torch(RuntimeError("shapes differ"), "judging") is None


def test_a_block_has_the_calls_that_fill_it() -> None:
    assert rounds.calls_for(10.0, 2000.0, 1024) == 200
    assert rounds.calls_for(1.0, 2000.0, 1024) == 512
    assert rounds.calls_for(10.0, 2000.0, 40) == 20
    assert rounds.calls_for(5000.0, 2000.0, 40) == 1
    assert rounds.calls_for(300.0, 2000.0, 4) == 4


def test_calls_that_fill_a_block_take_part_in_fewer_rounds() -> None:
    assert rounds.fitted(DEVICE_SCREEN, DEVICE_SCREEN.block_us - 1.0) is DEVICE_SCREEN
    assert rounds.fitted(DEVICE_SCREEN, DEVICE_SCREEN.block_us).rounds == 4
    assert rounds.fitted(DEVICE_MEASURE, 5e3).rounds == 16
    assert rounds.fitted(replace(DEVICE_SCREEN, rounds=2), 5e3).rounds == 2


def test_ratios_come_from_within_rounds_and_the_paired_baseline_counts_once() -> None:
    drift = np.linspace(1.0, 2.0, 9)
    samples = rounds.Samples(
        times_us={
            "graph:eager": (30.0 * drift).tolist(),
            "graph:eager again": (30.6 * drift).tolist(),
            "candidate": (10.0 * drift).tolist(),
        },
        calls={"graph:eager": 3, "candidate": 9},
        captured={"graph:eager": True, "candidate": True},
        rounds=9,
    )
    (found,) = rounds.comparisons(samples, DEVICE_MEASURE)
    assert found.baseline == "graph:eager"
    assert [found.low, found.speedup, found.high] == pytest.approx([3.03, 3.03, 3.03])
    assert rounds.noise(samples, DEVICE_MEASURE) == pytest.approx(1 - 30.0 / 30.6)
    assert {m.contender for m in rounds.measurements(samples, DEVICE_MEASURE, workload="w", mode="cold")} == {
        "graph:eager",
        "candidate",
    }


def test_limits_of_the_fake_are_plausible() -> None:
    assert LIMITS.shared_bytes == 232448


@pytest.mark.parametrize("name", ["judge/inputs.py", "judge/truth.py", "reference_program.py"])
def test_every_draw_on_the_way_to_a_device_is_made_where_its_generator_is(name: str) -> None:
    """A draw with a device's generator, and no device, would fail there and only there."""
    tree = ast.parse((Path(kernelwright.__file__).parent / name).read_text())
    refreshing = {
        node
        for owner in ast.walk(tree)
        if isinstance(owner, ast.ClassDef) and owner.name == "Refresher"  # of slots in shared memory
        for node in ast.walk(owner)
    }
    found = 0
    for node in ast.walk(tree):
        words = {keyword.arg for keyword in node.keywords} if isinstance(node, ast.Call) else set()
        if "generator" in words and node not in refreshing:
            found += 1
            assert "device" in words, f"{name}:{node.lineno}"  # type: ignore[attr-defined]
    assert found
