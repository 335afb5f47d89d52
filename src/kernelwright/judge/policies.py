"""How thoroughly a candidate is judged: three policies, from a quick look to what a report may quote.

SCREEN   sorts a search's candidates: a few families, few rounds, eager only
MEASURE  decides between the best of them: all families once, more rounds, eager only
REPORT   what may be published: all families twice, every baseline, at least thirty rounds
"""

from __future__ import annotations

from kernelwright.types import Policy

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
    "ascending",
    "nonfinite",
    "huge",
    "tiny",
    "shifted",
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
)
POLICIES: dict[str, Policy] = {policy.name: policy for policy in (SCREEN, MEASURE, REPORT)}
