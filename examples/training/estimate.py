"""What the recipe of verl.yaml would cost: hours, GPU hours and money of each stage, between a cheap and a dear bound.

    python examples/training/estimate.py --size 7B --judges 1
    python examples/training/estimate.py --assume usd_a_gpu_hour=1.9,2.4 --measured 21000,0.494e9

Arithmetic on measured rates and on assumptions, each named with its reason in assumptions.json; prompts, answers and
GPUs are those of verl.yaml. `--measured` takes the tokens a second that a smaller model learnt on one such GPU, and its
parameters: the larger one is supposed to use the GPU as well, and no better.
**Covers**: writing answers (weights and cache read at memory bandwidth, prompts computed), learning (operations a
parameter and token), judging (candidates a minute, suspicious ones again in full), one after the other as in verl.
**Does not cover**: attention's operations, restarts, and whether anything is learnt. Nothing was run at these sizes.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
SIDES = ("cheap", "dear")
Values = Mapping[str, float]
"""Assumptions of one side, by name."""


@dataclass(frozen=True)
class Size:
    """A model."""

    parameters: float
    cache_bytes_a_token: float
    gpus_a_replica: int


@dataclass(frozen=True)
class Machines:
    """What verl.yaml and the user give."""

    prompts: int
    answers: int
    """To each prompt."""
    gpus: int
    judges: int
    """GPUs that judge and do nothing else."""


@dataclass(frozen=True)
class Cost:
    """Of one stage, on one side."""

    stage: str
    writing_s: float
    learning_s: float
    judging_s: float
    gpu_hours: float
    usd: float

    @property
    def hours(self) -> float:
        """From its start to its end."""
        return (self.writing_s + self.learning_s + self.judging_s) / 3600


def known() -> dict[str, dict[str, dict[str, float]]]:
    """Returns what assumptions.json says."""
    found: dict[str, dict[str, dict[str, float]]] = json.loads((FOLDER / "assumptions.json").read_text())
    return found


def values(given: Mapping[str, tuple[float, float]] | None = None) -> dict[str, dict[str, float]]:
    """Returns the assumptions of each side, some replaced.

    Raises:
        SystemExit: there is none of a given name.
    """
    told = known()["assumptions"]
    if strange := sorted(set(given or {}) - set(told)):
        raise SystemExit(f"no assumption is called {', '.join(strange)}; there are {', '.join(told)}")
    pairs = {name: (one["cheap"], one["dear"]) for name, one in told.items()} | dict(given or {})
    return {side: {name: pair[place] for name, pair in pairs.items()} for place, side in enumerate(SIDES)}


def size_of(name: str) -> Size:
    """Returns a model by its name in assumptions.json."""
    told = known()["sizes"][name]
    return Size(told["parameters"], told["cache_bytes_a_token"], int(told["gpus_a_replica"]))


def machines(judges: int = 1) -> Machines:
    """Returns the recipe's numbers: what stands in verl.yaml, beside the judges."""
    text = (FOLDER / "verl.yaml").read_text()

    def number(key: str) -> int:
        found = re.search(rf"^\s+{key}: (\d+)", text, re.MULTILINE)
        if found is None:
            raise SystemExit(f"verl.yaml has no {key}")
        return int(found[1])

    gpus = number("nnodes") * number("n_gpus_per_node")
    return Machines(prompts=number("train_batch_size"), answers=number("n"), gpus=gpus, judges=judges)


def measured_use(tokens_a_second: float, parameters: float) -> dict[str, tuple[float, float]]:
    """Returns the share of a GPU's product rate that a model reached while it learnt, as an assumption."""
    sides = values()
    reached = tokens_a_second * parameters * sides["dear"]["learning_passes"]
    use = tuple(reached / sides[side]["product_flops"] for side in SIDES)
    return {"learning_use": (use[0], use[1])}


def writing_s(size: Size, on: Machines, v: Values) -> float:
    """Returns the seconds in which a step's answers are written.

    A token reads all weights once for the answers that are written together, and each answer's cache; how many fit
    together follows from what is left beside the weights. Prompts are computed before.
    """
    count, replicas = on.prompts * on.answers, on.gpus / size.gpus_a_replica
    longest = v["prompt_tokens"] + v["answer_tokens"]
    room = v["cache_bytes"] * size.gpus_a_replica - 2 * size.parameters
    together = math.floor(room / (size.cache_bytes_a_token * longest))
    if together < 1:
        raise SystemExit("not one answer fits beside the weights: more GPUs a replica")
    each = math.ceil(count / replicas)
    weights = math.ceil(each / together) * v["answer_tokens"] * 2 * size.parameters
    cache = each * v["answer_tokens"] * (v["prompt_tokens"] + v["answer_tokens"] / 2) * size.cache_bytes_a_token
    reading = (weights + cache) / (v["bandwidth"] * v["reading_use"] * size.gpus_a_replica)
    read = on.prompts * v["prompts_read"] * v["prompt_tokens"]
    return reading + 2 * size.parameters * read / (on.gpus * v["product_flops"] * v["learning_use"])


def learning_s(size: Size, on: Machines, v: Values, *, rows: float, passes: str) -> float:
    """Returns the seconds in which some prompts with their answers are learnt."""
    tokens = rows * (v["prompt_tokens"] + v["answer_tokens"])
    return v[passes] * size.parameters * tokens / (on.gpus * v["product_flops"] * v["learning_use"])


def judging_s(on: Machines, v: Values) -> float:
    """Returns the seconds in which a step's answers are judged, the suspicious ones again in full."""
    judged = on.prompts * on.answers * v["built"] * (1 + v["judged_in_full"] * v["full_cost"])
    return 60 * judged / (v["judged_a_minute"] * on.judges)


def costs(size: Size, on: Machines, v: Values) -> tuple[Cost, ...]:
    """Returns what each stage costs with one side's assumptions; judging GPUs are paid while others write and learn."""
    count = on.prompts * on.answers

    def cost(stage: str, steps: float, rows: float, passes: str, judges: int) -> Cost:
        wrote = steps * v["overhead"] * writing_s(size, on, v) if judges else 0.0
        learnt = steps * v["overhead"] * learning_s(size, on, v, rows=rows, passes=passes)
        judged = steps * judging_s(on, v) if judges else 0.0
        hours = (wrote + learnt + judged) / 3600 * (on.gpus + judges)
        return Cost(stage, wrote, learnt, judged, hours, hours * v["usd_a_gpu_hour"])

    return (
        cost("sft", 1, v["sft_rows"], "imitation_passes", 0),
        cost("select", v["select_steps"], v["select_kept"] * count, "imitation_passes", on.judges),
        cost("contrast", v["contrast_steps"], count, "learning_passes", on.judges),
    )


def span(both: tuple[float, ...]) -> str:
    """Returns two numbers as words, as exact as they are."""
    low, high = (f"{number:,.0f}" if number >= 10 else f"{number:.2g}" for number in both)
    return "none" if not any(both) else f"{low} to {high}"


def table(sizes: tuple[str, ...], on: Machines, sides: Mapping[str, Values]) -> list[str]:
    """Returns the stages of some sizes as Markdown, each number from cheap to dear."""
    lines = [
        "| model | stage | hours | of them writing | learning | judging | GPU hours | USD |", "|---" * 8 + "|",
    ]  # fmt: skip
    for name in sizes:
        both = [costs(size_of(name), on, sides[side]) for side in SIDES]
        for low, high in zip(*both, strict=True):
            parts = [(low.hours, high.hours), *(
                (getattr(low, part) / 3600, getattr(high, part) / 3600)
                for part in ("writing_s", "learning_s", "judging_s")
            ), (low.gpu_hours, high.gpu_hours), (low.usd, high.usd)]  # fmt: skip
            lines.append(f"| {name} | {low.stage} | " + " | ".join(map(span, parts)) + " |")
        total = [(sum(c.gpu_hours for c in side), sum(c.usd for c in side)) for side in both]
        sums = " | ".join(map(span, zip(*total, strict=True)))
        lines.append(f"| {name} | all | | | | | {sums} |")
    return lines


def reasons(sides: Mapping[str, Values]) -> list[str]:
    """Returns every assumption as Markdown."""
    lines = ["| assumption | cheap | dear | unit | where from |", "|---|---|---|---|---|"]
    for name, told in json.loads((FOLDER / "assumptions.json").read_text())["assumptions"].items():
        low, high = (sides[side][name] for side in SIDES)
        changed = (low, high) != (told["cheap"], told["dear"])
        source = "given" if changed else f"{'measured' if told['measured'] else 'assumed'}: {told['why']}"
        lines.append(f"| {name} | {low:.4g} | {high:.4g} | {told['unit']} | {source} |")
    return lines


def pair(text: str) -> tuple[float, float]:
    """Returns two numbers that a comma separates."""
    low, high = text.split(",")
    return float(low), float(high)


def main() -> None:
    """Prints the estimate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", action="append", choices=sorted(known()["sizes"]), help="again and again; 7B and 32B")
    parser.add_argument("--judges", type=int, default=1, help="GPUs that judge")
    parser.add_argument("--assume", action="append", default=[], metavar="NAME=CHEAP,DEAR")
    parser.add_argument("--measured", type=pair, metavar="TOKENS_A_SECOND,PARAMETERS")
    given = parser.parse_args()
    changed = {name: pair(text) for name, _, text in (one.partition("=") for one in given.assume)}
    sides = values((measured_use(*given.measured) if given.measured else {}) | changed)
    on = machines(given.judges)
    print("\n".join([*table(tuple(given.size or ("7B", "32B")), on, sides), "", *reasons(sides)]))


if __name__ == "__main__":
    main()
