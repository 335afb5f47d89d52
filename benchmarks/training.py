"""Takes a code model through the three stages in calls of at most ten minutes, and says what each of them bought.

    python benchmarks/training.py pack FILE... --out DIR       files in parts that can be carried one at a time
    python benchmarks/training.py unpack DIR --out DIR         the files again, each held against its digest
    python benchmarks/training.py convert FILE.gguf --out DIR  a model as transformers reads it, once
    python benchmarks/training.py run --device cuda --model DIR --work DIR --out DIR --seconds 520 [--resume]
                                                               again and again with --resume, until it says `done`
    python benchmarks/training.py cost --out DIR               what the recipe for many GPUs would cost, judged as here
    python benchmarks/training.py page --out DIR               docs/results/training-gpu.md from what `run` left there

`run` makes a corpus, then sft, select and contrast; before the first and after each, the model answers held-out
problems sixteen times each. Each part has its share of --total seconds and ends when that is used up; what a call does
not finish the next goes on with. Without a --model yet it makes the corpus only. --out gets results.json, results.md
and curves.svg. What small budgets allow is little: the page says how many steps each stage had. Not here: the small
author of schedules and the comparison with search (training_small.py).
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from examples.training import estimate  # noqa: E402

from kernelwright.report.plot import Curve, curves  # noqa: E402
from kernelwright.training.families import FUNCTIONS  # noqa: E402

PAGE = ROOT / "docs" / "results" / "training-gpu.md"
PART_BYTES = 50_000_000
LONG = frozenset((
    "entropy", "log_cosh", "standardise", "softmax_bias", "log_softmax_row", "softmax_scale", "norm_silu",
    "row_variance", "row_range", "mish_like", "column_mean_scale", "hinge", "centre_columns", "rms_gate",
))  # fmt: skip
"""Families whose kernels are longer than a small model can keep in mind."""
FAMILIES = tuple(name for name, *_ in FUNCTIONS if name not in LONG)
BASE = "as it came"
PARTS = {
    "corpus": 0.26, f"held-out {BASE}": 0.06, "sft": 0.10, "held-out sft": 0.06, "select": 0.15,
    "held-out select": 0.06, "contrast": 0.25, "held-out contrast": 0.06,
}  # fmt: skip
"""Shares of --total."""
STAGES = {
    "sft": ["--rate", "2e-4", "--lessons", "24"],
    "select": ["--rate", "5e-5", "--problems", "8", "--group", "8"],
    "contrast": ["--rate", "2e-5", "--problems", "8", "--group", "8", "--entropy", "0.003"],
}
UNBUILT = ("none", "failed: emit", "failed: plan", "failed: build")
STYLE = "<style>text{font:12px sans-serif;fill:#555}.grid{stroke:#ddd}.one{stroke:#999}</style>"
BARS = " .:-=+*#%@"


# ----------------------------------------------------------------------------- weights


def sha256(path: Path) -> str:
    """Returns a file's digest."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def pack(files: list[Path], out: Path) -> None:
    """Cuts files into parts of at most PART_BYTES, with a list of what belongs together."""
    out.mkdir(parents=True, exist_ok=True)
    listed = []
    for file in files:
        parts: list[str] = []
        with file.open("rb") as source:
            while data := source.read(PART_BYTES):
                part = out / f"{file.name}.part{len(parts)}"
                part.write_bytes(data)
                parts.append(part.name)
        listed.append({"name": file.name, "bytes": file.stat().st_size, "sha256": sha256(file), "parts": parts})
    (out / "parts.json").write_text(json.dumps(listed, indent=1) + "\n")
    print(json.dumps(listed, indent=1))


def unpack(folder: Path, out: Path) -> None:
    """Puts files together again.

    Raises:
        SystemExit: a part is missing, or what came out is not what went in.
    """
    out.mkdir(parents=True, exist_ok=True)
    for told in json.loads((folder / "parts.json").read_text()):
        if missing := [name for name in told["parts"] if not (folder / name).is_file()]:
            sys.exit(f"{folder} lacks {', '.join(missing)}")
        whole = out / told["name"]
        with whole.open("wb") as file:
            for name in told["parts"]:
                file.write((folder / name).read_bytes())
        if sha256(whole) != told["sha256"]:
            sys.exit(f"{whole} is not what was packed")
        print(whole)


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


# --------------------------------------------------------------------------------- run


class Run:
    """The parts of a run, and how much of its time each has had."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.work = given, given.work
        self._began = time.monotonic()
        self._path = self.work / "parts.json"
        self.work.mkdir(parents=True, exist_ok=True)
        if self._path.is_file() and not given.resume:
            sys.exit(f"{self.work} holds a run already: add --resume, or name another --work")
        self.spent: dict[str, Any] = json.loads(self._path.read_text()) if self._path.is_file() else {}

    def left(self) -> float:
        """Returns the seconds that this call still has."""
        return float(self.given.seconds) - (time.monotonic() - self._began)

    def go_on(self) -> bool:
        """Works until the call's time is used up; returns whether everything is done."""
        for name, share in PARTS.items():
            had = self.spent.setdefault(name, {"seconds": 0.0, "done": False})
            if had["done"]:
                continue
            if name != "corpus" and not self.given.model.is_dir():
                print(f"{self.given.model} holds no model yet")
                return False
            own = share * self.given.total - had["seconds"]
            may = min(own, self.left())
            # Models and judges take a while to start: less than this is not worth a beginning.
            if self.left() < min(self.given.least, own):
                return False
            started = time.monotonic()
            complete = self._part(name, max(may, 1.0))
            had["seconds"] += time.monotonic() - started
            had["done"] = complete or had["seconds"] >= share * self.given.total - self.given.least / 2
            self._path.write_text(json.dumps(self.spent, indent=1))
            write(self.work, self.given.out, self.given.device)
        return all(had["done"] is True for had in self.spent.values())

    def _part(self, name: str, seconds: float) -> bool:
        device, data = ["--device", self.given.device], ["--data", str(self.work / "corpus")]
        if name == "corpus":
            chosen = [part for family in self.given.families for part in ("--family", family)]
            command(
                "corpus", "build", "--out", data[1], *device, "--variants", "1", "--each", str(self.given.each),
                "--bugs", "1", "--budget", f"{seconds:.0f}s", *chosen,
            )  # fmt: skip
            return bool(json.loads((self.work / "corpus" / "corpus.json").read_text())["finished"])
        tokens = ["--tokens", str(self.given.tokens)]
        if name.startswith("held-out "):
            stage = name.removeprefix("held-out ")
            model = self.given.model if stage == BASE else self.work / stage
            told = command("train", "evaluate", "--model", str(model), *data, *device, *tokens, "--count",
                           str(self.given.count), "--json")  # fmt: skip
            (self.work / f"{name}.json".replace(" ", "-")).write_text(told)
            return True
        order = [str(self.given.model), *(str(self.work / stage) for stage in STAGES)]
        out = self.work / name
        more = ["--resume"] if (out / "steps.jsonl").is_file() else []
        command(
            "train", name, "--model", order[list(STAGES).index(name)], *data, *device, *tokens, "--out", str(out),
            "--steps", str(self.given.steps), "--budget", f"{seconds:.0f}s", "--save-every", "10", *STAGES[name],
            *self.given.stage_options, *more,
        )  # fmt: skip
        return bool(len(lines_of(out)) >= self.given.steps)


def command(*arguments: str) -> str:
    """Runs kernelwright, shows what it says, and returns its output."""
    print("$ kernelwright", *arguments, flush=True)
    found = subprocess.run(
        [sys.executable, "-m", "kernelwright", *arguments], check=True, stdout=subprocess.PIPE, text=True
    )
    print(found.stdout if len(found.stdout) < 2000 else "", flush=True)
    return found.stdout


def lines_of(stage: Path) -> list[dict[str, Any]]:
    """Returns the lines of a stage's steps."""
    path = stage / "steps.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


# ----------------------------------------------------------------------------- results


def write(work: Path, out: Path, device: str) -> None:
    """Writes what is there so far, and shows it."""
    out.mkdir(parents=True, exist_ok=True)
    held = {stage: work / f"held-out-{stage}.json".replace(" ", "-") for stage in (BASE, *STAGES)}
    corpus = work / "corpus" / "corpus.json"
    found = {
        "device": device, "seconds": json.loads((work / "parts.json").read_text()),
        "corpus": json.loads(corpus.read_text()) if corpus.is_file() else {},
        "steps": {stage: lines_of(work / stage) for stage in STAGES},
        "held-out": {stage: json.loads(path.read_text()) for stage, path in held.items() if path.is_file()},
    }  # fmt: skip
    (out / "results.json").write_text(json.dumps(found, indent=1) + "\n")
    text = "\n".join(told(found))
    (out / "results.md").write_text(text + "\n")
    drawn = tuple(
        Curve(label=stage, numbers=tuple(line["reward"] for line in found["steps"][stage] if "reward" in line))
        for stage in ("select", "contrast")
    )
    if any(curve.numbers for curve in drawn):
        svg = curves(tuple(c for c in drawn if c.numbers), title="Mean reward of each step")
        (out / "curves.svg").write_text(svg.replace(">\n", f">\n{STYLE}\n", 1))
    print(text, flush=True)


def told(found: dict[str, Any]) -> list[str]:
    """Returns the results as Markdown."""
    rows, families = found["corpus"].get("rows", {}), found["corpus"].get("families", {})
    out = [f"Corpus: {rows} rows of {families} families, judged on {found['device']}.", ""]
    out += [
        "| stage | steps | seconds | of which sampling, judging | first and last | curve |",
        "|---|---|---|---|---|---|",
    ]
    for stage, steps in found["steps"].items():
        if steps:
            key = "loss" if stage == "sft" else "reward"
            numbers = [line.get(key, 0.0) for line in steps]
            parts = [sum(line.get(f"{what}_seconds", 0.0) for line in steps) for what in ("sampling", "judging")]
            whole = sum(line["seconds"] for line in steps)
            out.append(
                f"| {stage} | {len(steps)} | {whole:.0f} | {parts[0]:.0f}, {parts[1]:.0f} | {key} "
                f"{numbers[0]:.3f}, {numbers[-1]:.3f} "
                f"| `{bars(numbers)}` |"
            )
    out += [
        "", "| held-out answers of | answers | compile | verified | mean reward | problems with a verified kernel | "
        "best of each, geometric mean against eager |", "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for stage, told_of in found["held-out"].items():
        some = told_of["problems"]
        kinds = [dict(one["kinds"]) for one in some]
        total = max(1, sum(one["answers"] for one in some))
        built = total - sum(kind.get(name, 0) for kind in kinds for name in UNBUILT)
        fast = [one["speedup"] for one in some if one["speedup"] > 0]
        reward = statistics.fmean(one["reward"] for one in some) if some else 0.0
        out.append(
            f"| {stage} | {total} | {built / total:.0%} | {sum(k.get('verified', 0) for k in kinds) / total:.0%} | "
            f"{reward:.3f} | {len(fast)} of {len(some)} | "
            f"{f'{statistics.geometric_mean(fast):.2f}x' if fast else 'none'} |"
        )
    return out


def bars(numbers: list[float]) -> str:
    """Returns numbers as a line of characters, at most sixty."""
    width = -(-len(numbers) // 60)
    means = [statistics.fmean(numbers[place : place + width]) for place in range(0, len(numbers), width)]
    low, high = min(means), max(means)
    return "".join(BARS[int((m - low) / (high - low or 1) * (len(BARS) - 1))] for m in means)


def cost(found: dict[str, Any], *, judges: int = 1) -> list[str]:
    """Returns what the recipe for many GPUs would cost, as a table: judged as fast as this run's answers were.

    Everything else is as examples/training/assumptions.json says.
    """
    steps = [line for stage in ("select", "contrast") for line in found["steps"][stage]]
    said, judged = (
        sum(sum(line["kinds"].values()) for line in steps), sum(line["judging_seconds"] for line in steps)
    )  # fmt: skip
    if not said or not judged:
        return ["no step was made, so no cost can be told"]
    rate = 60 * said / judged
    # What did not build, and what was judged again in full, took its share of these seconds.
    sides = estimate.values({"judged_a_minute": (rate, rate), "built": (1.0, 1.0), "judged_in_full": (0.0, 0.0)})
    lines = estimate.table(("7B", "32B"), estimate.machines(judges), sides)
    return [f"{rate:.0f} answers were judged in a minute; {judges} GPU judges.", "", *lines]


def main() -> None:
    """Does what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["pack", "unpack", "convert", "run", "cost", "page"])
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("kernelwright-out/training"))
    parser.add_argument("--model", type=Path, default=Path("model"))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--seconds", type=float, default=520.0, help="of this call")
    parser.add_argument("--total", type=float, default=1400.0, help="seconds of all calls")
    parser.add_argument("--least", type=float, default=45.0, help="seconds without which no part is begun")
    parser.add_argument("--steps", type=int, default=400, help="of a stage at most")
    parser.add_argument("--each", type=int, default=6, help="schedules of each problem of the corpus")
    parser.add_argument("--count", type=int, default=16, help="answers to each held-out problem")
    parser.add_argument("--tokens", type=int, default=768)
    parser.add_argument("--families", nargs="*", default=FAMILIES)
    parser.add_argument("--stage-options", type=str.split, default=[], help="more for every stage, in one argument")
    parser.add_argument("--resume", action="store_true")
    given = parser.parse_args()
    if given.what == "pack":
        pack(given.files, given.out)
    elif given.what == "unpack":
        unpack(given.files[0], given.out)
    elif given.what == "convert":
        convert(given.files[0], given.out)
    elif given.what == "run":
        print("done" if Run(given).go_on() else "go on with --resume")
    else:
        found = json.loads((given.out / "results.json").read_text())
        costs = cost(found)
        print("\n".join(costs))
    if given.what == "page":
        PAGE.write_text(
            "\n".join(
                [
                    "# Training a code model on a GPU",
                    "",
                    "Made by `benchmarks/training.py`.",
                    "",
                    *told(found),
                    "",
                    "What the recipe for many GPUs would cost (examples/training/estimate.py):",
                    "",
                    *costs,
                ]
            )
            + "\n"
        )


if __name__ == "__main__":
    main()
