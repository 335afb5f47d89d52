"""How thoroughly a candidate is judged: three policies, from a quick look to what a report may quote.

SCREEN   sorts a search's candidates: a few families, few rounds, eager only
MEASURE  decides between the best of them: all families once, more rounds, eager only
REPORT   what may be published: all families twice, every baseline, at least thirty rounds, and the
         memory and race checkers

On a GPU the same three have the device's baselines, shorter blocks and its memory checkers (`policies_for`).
Where a GPU is emulated they have no rounds: nothing is timed.
"""

from __future__ import annotations

from kernelwright.languages.emulation import is_emulated
from kernelwright.types import Policy, Target, replace

FAMILIES = (
    "given",
    "normal",
    "uniform",
    "large",
    "small",
    "heavy",
    "positive",
    "negative",
    "integers",
    "constant",
    "powers",
    "zeros",
    "outliers",
    "rows",
    "spikes",
    "ascending",
    "nonfinite",
    "huge",
    "tiny",
    "shifted",
    "patchwork",
    "exact",
    "lowest",
    "highest",
    "sorted",
    "permuted",
    "repeated",
    "sparse",
    "dense",
    "single",
)
"""Every input family, by the name that inputs.py or structured.py knows it by."""

COMPILE_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
BASELINES = ("eager", *(f"compile:{mode}" for mode in COMPILE_MODES))

SCREEN = Policy(
    name="screen",
    families=("given", "large", "negative", "constant", "integers", "rows", "nonfinite", "highest", "permuted"),
    draws=1,
    baselines=("eager",),
    rounds=6,
    block_us=1500.0,
    deadline_s=30.0,
    call_deadline_s=5.0,
    hidden_shapes=1,
)
MEASURE = Policy(
    name="measure",
    families=FAMILIES,
    draws=1,
    baselines=("eager",),
    rounds=20,
    block_us=3000.0,
    deadline_s=90.0,
    hidden_shapes=3,
)
REPORT = Policy(
    name="report",
    families=FAMILIES,
    draws=2,
    baselines=BASELINES,
    rounds=32,
    block_us=5000.0,
    deadline_s=300.0,
    hidden_shapes=6,
    memory_checkers=("address", "undefined", "thread"),
)
POLICIES: dict[str, Policy] = {policy.name: policy for policy in (SCREEN, MEASURE, REPORT)}

DEVICE_BASELINES = (
    "graph:eager",
    "eager",
    *(f"compile:{mode}" for mode in ("default", "reduce-overhead", "max-autotune")),
)
DEVICE_LIBRARIES = ("library:cublas", "library:cublaslt")
"""Further baselines where the problem multiplies matrices."""
DEVICE_CHECKERS = ("memcheck", "initcheck", "racecheck", "synccheck", "emulation")
"""The vendor's, and the emulated device (second_device.py) for CUDA C++ on small tensors."""
DEVICE_SCREEN = replace(SCREEN, baselines=("graph:eager",), block_us=1000.0)
DEVICE_MEASURE = replace(MEASURE, baselines=("graph:eager",), rounds=24, block_us=4000.0)
DEVICE_REPORT = replace(
    REPORT,
    baselines=DEVICE_BASELINES,
    rounds=32,
    block_us=2000.0,
    modes=("cold", "warm", "server"),
    memory_checkers=DEVICE_CHECKERS,
)
DEVICE_POLICIES: dict[str, Policy] = {p.name: p for p in (DEVICE_SCREEN, DEVICE_MEASURE, DEVICE_REPORT)}


EMULATED_SCREEN = replace(SCREEN, baselines=(), rounds=0, deadline_s=120.0, call_deadline_s=20.0)
EMULATED_MEASURE = replace(MEASURE, baselines=(), rounds=0, deadline_s=240.0, call_deadline_s=30.0)
EMULATED_REPORT = replace(
    REPORT, baselines=(), rounds=0, deadline_s=480.0, call_deadline_s=30.0, memory_checkers=("address",)
)
EMULATED_POLICIES: dict[str, Policy] = {p.name: p for p in (EMULATED_SCREEN, EMULATED_MEASURE, EMULATED_REPORT)}


def policies_for(target: Target) -> dict[str, Policy]:
    """Returns screen, measure and report as they are on a target, by name."""
    if is_emulated(target):
        return EMULATED_POLICIES
    return POLICIES if target.kind == "cpu" else DEVICE_POLICIES
