"""Has whole spaces of schedules judged once, and keeps what was measured as a table that experiments can be run on.

    python benchmarks/training_table.py record --work DIR [--budget 9m]   again and again, until it says `done`
    python benchmarks/training_table.py write --work DIR                  docs/results/training-table.json

Problems to practise on are what benchmarks/cpu.py left behind: schedules that the tuner had judged, so more good ones
than bad. Held-out problems have every schedule judged. An experiment on the table costs no judgement, comes out the
same on every machine, and compares everybody on the same numbers; what the
machine's noise did to a record on the day is part of the landscape and equal for all.
Spaces are cut to at most POINTS schedules, so that all of a space can be judged. Not here: the experiments
(training_small.py).
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from kernelwright import api, capture, languages
from kernelwright.judge import policies
from kernelwright.process import Worker
from kernelwright.store import Store
from kernelwright.training import families, rows
from kernelwright.training.corpus import rows_of, templates_of
from kernelwright.training.grammar import Grammar
from kernelwright.training.judging import Court
from kernelwright.training.rows import Row, Schedules, Split
from kernelwright.types import Parameter, Space, Template, digest, replace

TABLE = Path(__file__).resolve().parents[1] / "docs" / "results" / "training-table.json"
POINTS, ROUNDS = 24, 12
"""Of a problem; of each judgement: a quick look's six are too few on a machine that does other things beside."""
LEAST: dict[Split, int] = {"train": 8, "held-out": 15}
"""Records of a problem that is of any use; of the others the machine disturbed too many."""
HELD_OUT = ("leaky_bias", "silu_scale", "tanh_residual", "row_sum", "centre_rows")


def cut(template: Template) -> Template:
    """Returns a template of at most POINTS points: parameters in order keep as many values as leave that many."""
    left, kept = POINTS, []
    for parameter in template.space.parameters:
        count = min(len(parameter.values), left)
        kept.append(Parameter(name=parameter.name, values=parameter.values[:count]))
        left //= count
    return replace(template, space=Space(parameters=tuple(kept)))


def court_of_table(store: Store) -> Court:
    """Returns the judge of one thread whose records make the table."""
    target = replace(languages.detect_target(), threads=1)
    return Court(target, store, screen=replace(policies.SCREEN, rounds=ROUNDS), thorough=policies.MEASURE)


def record(work: Path, budget_s: float) -> bool:
    """Goes on judging; returns whether everything is judged."""
    began = time.monotonic()
    worker = Worker(capture.MODULE)
    with Store(work / api.STORE) as store, court_of_table(store) as court:
        known = {c.problem.name: c for c in store.values("Capture")}
        for source in families.sources(work / "families", names=HELD_OUT, variants=1):
            captured = known.get(f"{source.family}.{source.family}")
            if captured is None:
                captured = capture.load(source.source, inputs=source.inputs, worker=worker)
                store.put(captured)
            grammar = Grammar(tuple(map(cut, templates_of(captured, court.target)[:1])))
            every = [c for choices in grammar.every() if (c := grammar.candidate(choices)) is not None]
            for first in range(0, len(every), 8):
                if time.monotonic() - began >= budget_s:
                    return False
                court.records(captured.problem, every[first : first + 8])
            print(f"{source.family}: {len(every)} schedules, {court.judged} judged now", flush=True)
    worker.close()
    return True


def table(stores: list[Path]) -> dict[str, Any]:
    """Returns the table as plain data: for each problem its spaces and (point, median, low, noise) of each record.

    Args:
        stores: this script's own folder, then folders of `benchmarks/cpu.py`, of which the tuner chose the schedules.
    """
    told: list[dict[str, Any]] = []
    for number, path in enumerate(stores):
        with Store(path / api.STORE, create=False) as store:
            captures = {digest(c.problem): c for c in store.values("Capture")}
            found: dict[str, list[Row]] = {}
            for row in rows_of(store):
                if row.kind == "kernel" and row.template and row.low and (number or row.family in HELD_OUT):
                    found.setdefault(row.problem_digest, []).append(row)
            for key, some in found.items():
                target = store.get(some[0].target)
                templates = [cut(t) if number == 0 else t for t in templates_of(captures[key], target)]
                problem = _problem(some, templates, "held-out" if number == 0 else "train")
                if sum(len(t["records"]) for t in problem["templates"]) >= LEAST[problem["split"]]:
                    told.append(problem)
    return {
        "what": "records of the judge: all schedules of cut spaces (held-out), and what the tuner had judged (train)",
        "made": "benchmarks/training_table.py record, then write, beside the stores of benchmarks/cpu.py",
        "machine": "two-core AMD EPYC virtual machine that others used as well; held-out problems on one thread",
        "problems": sorted(told, key=lambda one: str(one["family"])),
    }  # fmt: skip


def _problem(some: list[Row], templates: list[Template], split: Split) -> dict[str, Any]:
    first, told = some[0], []
    for template in templates:
        allowed = {p.name: p.values for p in template.space.parameters}
        records = [
            [[choice for _, choice in row.point], round(row.speedup or 0.0, 4), round(row.low or 0.0, 4)]
            for row in some
            if row.template == template.name and all(choice in allowed.get(name, ()) for name, choice in row.point)
        ]
        if records:
            space = [[p.name, list(p.values)] for p in template.space.parameters]
            told.append({"name": template.name, "space": space, "records": records})
    return {
        "family": first.family, "split": split, "digest": first.problem_digest, "features": list(first.features),
        "templates": told,
    }  # fmt: skip


def write_corpus(kept: dict[str, Any], folder: Path) -> None:
    """Writes a table as a corpus that `kernelwright train --recorded` takes."""
    split: dict[Split, list[Row]] = {"train": [], "held-out": []}
    spaces = []
    for one in kept["problems"]:
        for template in one["templates"]:
            names = [name for name, _ in template["space"]]
            parameters = tuple(Parameter(name=name, values=tuple(values)) for name, values in template["space"])
            spaces.append(
                Schedules(problem_digest=one["digest"], template=template["name"], space=Space(parameters=parameters))
            )
            split[one["split"]] += [
                Row(
                    kind="kernel", family=one["family"], problem=one["family"], problem_digest=one["digest"],
                    features=tuple(one["features"]), reference="", language="cpp", template=template["name"],
                    point=tuple(zip(names, values, strict=True)), source="", speedup=speedup, low=low, noise=0.0,
                    policy="k1:recorded", target="k1:recorded",
                )
                for values, speedup, low in template["records"]
            ]  # fmt: skip
    rows.write(folder, {name: tuple(some) for name, some in split.items()}, spaces, {"rows": kept["what"]})


def main() -> None:
    """Does what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["record", "write"])
    parser.add_argument("--work", type=Path, default=Path("kernelwright-out/training-table"))
    parser.add_argument("--bench", type=Path, default=Path("kernelwright-out/bench"), help="of benchmarks/cpu.py")
    parser.add_argument("--budget", type=float, default=540.0, help="seconds of this call")
    given = parser.parse_args()
    if given.what == "record":
        print("done" if record(given.work, given.budget) else "go on")
    else:
        kept = table([given.work, *sorted(p.parent for p in given.bench.glob(f"*/{api.STORE}"))])
        problems = ",\n".join(json.dumps(one) for one in kept.pop("problems"))
        head = json.dumps(kept, indent=1).removesuffix("\n}")
        TABLE.write_text(f'{head},\n "problems": [\n{problems}\n]\n}}\n')
        print(TABLE)


if __name__ == "__main__":
    main()
