"""Trains an author in calls of at most ten minutes, and compares it with search at equal numbers of judgements.

    python benchmarks/training.py convert --gguf FILE --out DIR            a code model from a GGUF file, once
    python benchmarks/training.py train --work DIR [--model DIR] --budget 9m   again and again, until it says `done`
    python benchmarks/training.py compare --work DIR --budget 9m               the same
    python benchmarks/training.py page --work DIR                          docs/results/training.md and its curves

`train` goes through corpus, sft, select and three kinds of contrast, and stops at any step when the budget is used up.
Without --model it trains the small author of schedules from nothing. Nothing here is typed in by hand: the page is made
of what lies in --work.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from kernelwright import api
from kernelwright.commands.corpus import court_of
from kernelwright.report.plot import Curve, curves
from kernelwright.run.ablating import driven
from kernelwright.run.session import Session
from kernelwright.search import Chain, Strategy
from kernelwright.search.evolve import Evolve
from kernelwright.search.random_search import RandomSearch
from kernelwright.search.tune import Tune
from kernelwright.store import Store
from kernelwright.training import exercises
from kernelwright.training.choosing import Chosen
from kernelwright.types import digest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "results" / "training.md"
KINDS = {"vanilla": "none", "contrast-random": "random", "contrast-buckets": "buckets"}
"""What is compared: contrast stages by how they draw exemplars."""
STRATEGIES = ("random", "tune", "evolve", "select", *KINDS)
STYLE = "<style>text{font:12px sans-serif;fill:#555}.grid{stroke:#ddd}.one{stroke:#999}</style>"


def seconds(text: str) -> float:
    return float(text[:-1]) * {"s": 1.0, "m": 60.0, "h": 3600.0}[text[-1]]


def kernelwright(*arguments: str) -> None:
    print("$ kernelwright", *arguments, flush=True)
    subprocess.run([sys.executable, "-m", "kernelwright", *arguments], check=True)


def convert(gguf: Path, out: Path) -> None:
    """Writes a GGUF model as safetensors: tied again, with the right end of a turn, so that it can be saved at all."""
    transformers: Any = importlib.import_module("transformers")
    torch: Any = importlib.import_module("torch")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        str(gguf.parent), gguf_file=gguf.name, dtype=torch.bfloat16
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    model.config.tie_word_embeddings = True
    model.tie_weights()
    end = tokenizer.get_vocab()["<|im_end|>"]
    tokenizer.eos_token = "<|im_end|>"
    model.generation_config.eos_token_id = model.config.eos_token_id = end
    model.hf_quantizer, model.is_quantized = None, False
    for holder, name in ((model, "quantization_method"), (model.config, "quantization_config")):
        if hasattr(holder, name):
            delattr(holder, name)
    model.save_pretrained(str(out))
    tokenizer.save_pretrained(str(out))


def train(work: Path, model: str, device: str, budget_s: float, steps: dict[str, int]) -> bool:
    """Goes on with the first stage that is not done; returns whether all are."""
    began = time.monotonic()

    def left() -> float:
        return budget_s - (time.monotonic() - began)

    corpus = work / "corpus"
    about = corpus / "corpus.json"
    if not (about.is_file() and json.loads(about.read_text())["finished"]):
        kernelwright(
            "corpus", "build", "--out", str(corpus), "--device", device, "--budget", f"{max(1.0, left()):.0f}s"
        )
        if not json.loads(about.read_text())["finished"]:
            return False
    stages: list[tuple[str, str, str, list[str]]] = [
        ("sft", "sft", model, []),
        ("select", "select", str(work / "sft"), []),
    ]
    stages += [(name, "contrast", str(work / "select"), ["--exemplars", how]) for name, how in KINDS.items()]
    for name, stage, parent, more in stages:
        out = work / name
        done = len((out / "steps.jsonl").read_text().splitlines()) if (out / "steps.jsonl").is_file() else 0
        if done >= steps[stage]:
            continue
        if left() < 5:
            return False
        resume = ["--resume"] if out.is_dir() else []
        kernelwright(
            "train", stage, "--model", parent, "--data", str(corpus), "--device", device, "--out", str(out),
            "--steps", str(steps[stage]), "--budget", f"{left():.0f}s", "--save-every", "5", *more, *resume,
        )  # fmt: skip
        if len((out / "steps.jsonl").read_text().splitlines()) < steps[stage]:
            return False
    return True


def made(name: str, work: Path, one: exercises.Exercise, captured: Any, target: Any, seed: int, limit: int) -> Strategy:
    """Returns the strategy that a name stands for, with `limit` proposals."""
    templates = one.templates
    if name == "random":
        return RandomSearch(templates, seed=seed, limit=limit)
    if name == "tune":
        return Tune(templates, seed=seed, limit=limit)
    if name == "evolve":
        first = Tune(templates, seed=seed, limit=max(1, limit // 2))
        return Chain(first, lambda told: Evolve(templates, seed=seed, told=told, patience=limit), name=name)
    exemplars: Any = KINDS.get(name, "none")
    folder = work / name / "model"
    return Chosen(folder, captured, target, templates, seed=seed, limit=limit, exemplars=exemplars)


def compare(work: Path, device: str, budget_s: float, limit: int, seeds: int) -> bool:
    """Goes on with the comparison on held-out problems; returns whether it is complete."""
    began, corpus, path = time.monotonic(), work / "corpus", work / "trials.jsonl"
    done = {tuple(json.loads(line)["trial"]) for line in path.read_text().splitlines()} if path.is_file() else set()
    with Store(corpus / api.STORE) as store, court_of(device, store) as court:
        captures = {digest(c.problem): c for c in store.values("Capture")}
        some = {e.family: e for e in exercises.live(corpus, store, court, "held-out")}  # one variant of each family
        for family, one in some.items():
            assert one.problem is not None
            session = Session(one.problem, court.target, store=store, policies=(court.screen, court.thorough))
            for seed in range(seeds):
                for name in STRATEGIES:
                    if (family, name, seed) in done:
                        continue
                    if time.monotonic() - began >= budget_s:
                        return False
                    strategy = made(name, work, one, captures[one.key], court.target, seed, limit)
                    curve = list(
                        driven(strategy, session, court.turned_to(one.problem), court.screen, court.thorough, limit)
                    )
                    with path.open("a") as file:
                        file.write(json.dumps({"trial": (family, name, seed), "curve": curve}) + "\n")
    return True


def evaluate(work: Path, device: str, budget_s: float) -> bool:
    """Has each stage's model answer the held-out problems, sixteen times each; returns whether all have."""
    began = time.monotonic()
    for name in ("sft", "select", *KINDS):
        path = work / name / "held-out.json"
        if path.is_file() or not (work / name / "model").exists():
            continue
        if time.monotonic() - began >= budget_s:
            return False
        command = [
            sys.executable, "-m", "kernelwright", "train", "evaluate", "--model", str(work / name), "--data",
            str(work / "corpus"), "--device", device, "--json",
        ]  # fmt: skip
        found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        path.write_text(found)
    return True


def stages_table(work: Path) -> list[str]:
    """Returns, for each stage, what its answers to held-out problems were worth."""
    out = [
        "## Answers to held-out problems, sixteen each", "",
        "| stage | a kernel in it | verified | mean reward over the best known | best of 16, geometric mean speedup |",
        "|---|---|---|---|---|",
    ]  # fmt: skip
    for name in ("sft", "select", *KINDS):
        path = work / name / "held-out.json"
        if not path.is_file():
            continue
        found = json.loads(path.read_text())
        some = found["problems"]
        kinds = [dict(one["kinds"]) for one in some]
        total = sum(one["answers"] for one in some)
        built = total - sum(kind.get("none", 0) + kind.get("failed", 0) for kind in kinds)
        fast = [one["speedup"] for one in some if one["speedup"] > 0]
        out.append(
            f"| {name} | {built / total:.0%} | {sum(k.get('verified', 0) for k in kinds) / total:.0%} | "
            f"{found['of_optimum']:.3f} | {statistics.geometric_mean(fast) if fast else 0:.2f}x of {len(fast)} |"
        )
    return out


def interval(values: list[float], rng: random.Random) -> tuple[float, float]:
    """Returns the 95 % bootstrap interval of a mean."""
    means = sorted(statistics.fmean(rng.choices(values, k=len(values))) for _ in range(2000))
    return means[50], means[1949]


def page(work: Path) -> str:
    """Returns the page, and writes its curves beside it."""
    lines = {name: work / name / "steps.jsonl" for name in ("select", *KINDS)}
    steps = {n: [json.loads(line) for line in p.read_text().splitlines()] for n, p in lines.items() if p.is_file()}
    drawn = tuple(Curve(label=n, numbers=tuple(s["reward"] for s in some)) for n, some in steps.items())
    svg = curves(drawn, title="Mean reward of each step")
    PAGE.with_suffix(".svg").write_text(svg.replace(">\n", f">\n{STYLE}\n", 1))
    about = json.loads((work / "corpus" / "corpus.json").read_text())
    trials = [json.loads(line) for line in (work / "trials.jsonl").read_text().splitlines()]
    best = {
        family: max(t["curve"][-1] for t in trials if t["trial"][0] == family)
        for family, *_ in (t["trial"] for t in trials)
    }
    rng = random.Random(0)
    out = [
        "# Training: what it buys", "", "Made by `python benchmarks/training.py page`; see the head of that file.", "",
        f"Corpus: {about['rows']} rows of {about['families']} families.", "", "![mean reward](training.svg)", "",
        *stages_table(work), "",
        "## At equal numbers of judgements, on held-out families", "",
        "Best measured speed as a share of the best that any trial found; mean over families and seeds, 95 % interval.",
        "", "| strategy | trials | share of the best | after a third of the judgements |", "|---|---|---|---|",
    ]  # fmt: skip
    for name in STRATEGIES:
        own = [t for t in trials if t["trial"][1] == name and t["curve"]]
        if own:
            ends = [t["curve"][-1] / max(best[t["trial"][0]], 1e-9) for t in own]
            early = [t["curve"][len(t["curve"]) // 3] / max(best[t["trial"][0]], 1e-9) for t in own]
            low, high = interval(ends, rng)
            out.append(
                f"| {name} | {len(own)} | {statistics.fmean(ends):.3f} ({low:.3f} to {high:.3f}) | "
                f"{statistics.fmean(early):.3f} |"
            )
    return "\n".join([*out, "", *card(about)]) + "\n"


def card(about: dict[str, Any]) -> list[str]:
    """Returns the model card."""
    return [
        "## Model card", "", "- **What it is**: the author that these stages leave behind; `local:DIR` in `optimize`.",
        f"- **Learnt from**: {about['rows'].get('train', 0)} verified rows of {about['families'].get('train', 0)} "
        "families; held-out families were never practised on.",
        "- **Meant for**: choosing schedules of, or writing, kernels that a judge examines. Its word is no evidence.",
        "- **Not meant for**: kernels that nobody verifies; other machines than the corpus's without new training.",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["convert", "train", "compare", "page"])
    parser.add_argument("--work", type=Path, default=Path("kernelwright-out/training"))
    parser.add_argument("--model", default="new")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--budget", type=seconds, default=540.0)
    parser.add_argument("--judgements", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, nargs=3, default=(40, 40, 80), metavar=("SFT", "SELECT", "CONTRAST"))
    parser.add_argument("--gguf", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    steps = dict(zip(("sft", "select", "contrast"), given.steps, strict=True))
    if given.what == "convert":
        convert(given.gguf, given.out)
    elif given.what == "train":
        print("done" if train(given.work, given.model, given.device, given.budget, steps) else "go on")
    elif given.what == "compare":
        began = time.monotonic()
        ready = evaluate(given.work, given.device, given.budget)
        left = given.budget - (time.monotonic() - began)
        ready = ready and compare(given.work, given.device, left, given.judgements, given.seeds)
        print("done" if ready else "go on")
    else:
        PAGE.write_text(page(given.work), encoding="utf-8")


if __name__ == "__main__":
    main()
