"""From records to a bundle: builds each kernel once more (or takes it from the cache) and writes what bundle.py reads.

Only sealed candidates that passed can be exported. Not here: wheels and hub layouts (package.py).
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from elftools.elf.elffile import ELFFile

from kernelwright import codec, report
from kernelwright.deploy.bundle import BINARY, EVIDENCE, FORMAT, KERNELS, MANIFEST, file_digest, read_bundle
from kernelwright.deploy.envelope import Envelope, envelope_of, unchecked
from kernelwright.errors import UserError
from kernelwright.languages import Builder, detect_target
from kernelwright.run.result import Result, Row, best_baseline, verdict_of
from kernelwright.run.verify import Remembered
from kernelwright.types import Artifact, Failure, Judgement, SourceFile, digest, replace

DIGITS = 8


def export(remembered: Sequence[Remembered], out: str | Path, *, name: str = "") -> Path:
    """Writes a bundle of judged kernels and returns its folder.

    Args:
        remembered: what `run.recollect` found; one kernel each.
        out: the folder, new or a bundle of before, which is replaced.
        name: the bundle's; default: the first problem's.

    Raises:
        UserError: a record that did not pass, a witnessed candidate, one that cannot be built here any more, or a
            folder that holds something else.
    """
    if not remembered:
        raise UserError("there is nothing to export", "name a record, or the best folder of a result")
    folder = Path(out)
    if folder.exists() and any(folder.iterdir()) and not (folder / MANIFEST).is_file():
        raise UserError(f"{folder} holds files that kernelwright did not write", "name another folder with -o")
    unfinished = folder.with_name(f".{folder.name}-{os.getpid()}-unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    names: dict[str, Remembered] = {}
    for one in remembered:
        names[_name(one)] = one
    try:
        for kernel, one in names.items():
            _write_kernel(unfinished / KERNELS / kernel, one)
        (unfinished / "README.md").write_text(_readme(names), encoding="utf-8")
        files = sorted(path for path in unfinished.rglob("*") if path.is_file())
        manifest = {
            "format": FORMAT,
            "name": name or remembered[0].problem.name,
            "kernelwright": metadata.version("kernelwright"),
            "kernels": list(names),
            "files": {str(path.relative_to(unfinished)): file_digest(path) for path in files},
        }
        (unfinished / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        read_bundle(unfinished)
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}", "name another folder with -o") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _name(one: Remembered) -> str:
    stem = re.sub(r"\W", "_", one.problem.name)
    return f"{stem}_{digest(one.candidate).rpartition(':')[2][:DIGITS]}"


def _write_kernel(folder: Path, one: Remembered) -> None:
    _check(one)
    artifact = _built(one)
    folder.mkdir(parents=True)
    binary = folder / BINARY[one.target.kind]
    shutil.copyfile(artifact.path, binary)
    envelope = envelope_of(one.problem, one.target, one.record)
    gaps = unchecked(one.problem, one.policy, one.record)
    members = {
        "problem": replace(one.problem, origin=""), "kernel": one.candidate,
        "artifact": replace(artifact, path=""), "target": one.target,
        "policy": one.policy, "record": one.record,
    }  # fmt: skip
    evidence = {key: codec.to_data(item) for key, item in members.items()}
    _write_json(folder / EVIDENCE, evidence | {"serial": one.target.kind == "cpu" and keeps_data(binary)})
    _write_json(folder / "envelope.json", codec.to_data(envelope) | {"not_checked": list(gaps)})
    for place, sources in (("source", one.candidate.sources), ("reference", one.problem.reference)):
        _write_sources(folder / place, sources)
    page = report.html(_result(one), version=metadata.version("kernelwright"))
    (folder / "report.html").write_text(page, encoding="utf-8")


def _check(one: Remembered) -> None:
    name = one.problem.name
    if not one.record.passed:
        raise UserError(f"{name}: this kernel did not pass the judge", "export a record that did")
    if one.candidate.witnessed:
        fix = "judge a sealed form of it (C++, CUDA C++, Triton, cuTile)"
        raise UserError(f"{name}: a witnessed candidate runs its author's Python and cannot be sealed in a bundle", fix)


def _built(one: Remembered) -> Artifact:
    """Builds for the record's own target: what was judged on other hardware would come out as another kernel here."""
    here = detect_target()
    if one.target.kind == "cpu" and (here.architecture, here.features) != (
        one.target.architecture,
        one.target.features,
    ):
        message = f"{one.problem.name} was judged on {one.target.architecture}, this machine is {here.architecture}"
        raise UserError(message, "export it there, or optimize it again here")
    with Builder(one.target, workers=1) as builder:
        (made,) = builder.build(one.problem, (one.candidate,))
    if isinstance(made, Failure):
        raise UserError(f"{one.problem.name} cannot be built here any more: {made.message}", "optimize it again here")
    return replace(made, log="")


def keeps_data(library: Path) -> bool:
    """Tells whether a library has writable data of its own, which calls at the same time would share."""
    with library.open("rb") as file:
        elf = ELFFile(file)
        sections = (elf.get_section_by_name(name) for name in (".data", ".bss"))
        return any(section is not None and section["sh_size"] for section in sections)


def _write_json(path: Path, data: object) -> None:
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _write_sources(folder: Path, sources: tuple[SourceFile, ...]) -> None:
    for source in sources:
        path = Path(source.path)
        if path.is_absolute() or ".." in path.parts:
            raise UserError(f"a source has the path {source.path!r}, which leads out of its folder", "rename it")
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(source.text, encoding="utf-8")


def _result(one: Remembered) -> Result:
    """Returns the record as a result of its own, which is what a report shows."""
    answer, why = verdict_of(one.record)
    measurements = one.record.outcome.measurements if isinstance(one.record.outcome, Judgement) else ()
    hardest = best_baseline(one.record)
    return Result(
        problem=one.problem, target=one.target, policy=one.policy, seed=0, answer=answer, why=why, best=one.candidate,
        report=one.record, baseline=hardest.baseline if hardest else "",
        rows=(Row(candidate=one.candidate, records=((one.policy.name, one.record),)),),
        baselines=tuple(m for m in measurements if m.contender != "candidate"), refusals=(),
        counts=(("passed", 1),), judged=0, found=1, stopped="finished", seconds=one.record.duration_s,
    )  # fmt: skip


def _readme(names: dict[str, Remembered]) -> str:
    parts = [
        "# Kernels, verified\n\n```python\nimport kernelwright\n\nop = kernelwright.load(DIR)  # falls back to the "
        "original outside the envelope\n```\n\n`kernelwright verify DIR/kernels/NAME/evidence.json` judges one again.\n"
    ]
    for name, one in names.items():
        envelope = envelope_of(one.problem, one.target, one.record)
        _, why = verdict_of(one.record)
        lines = [f"\n## {name}\n", f"{one.problem.description or one.problem.name}. {why}\n", "Verified for:\n"]
        lines += [f"- {line}" for line in described(envelope)]
        lines += ["\nNot checked:\n", *(f"- {line}" for line in unchecked(one.problem, one.policy, one.record))]
        parts.append("\n".join(lines) + "\n")
    return "".join(parts)


def described(envelope: Envelope) -> tuple[str, ...]:
    """Returns an envelope as lines for people."""
    lines = [f"{spec.role} {report.tensor_text(spec)}" for spec in envelope.tensors + envelope.outputs]
    lines += [f"axis {axis.name}: {axis.low} to {axis.high}" for axis in envelope.axes]
    where = f"{envelope.kind} {envelope.architecture}"
    lines.append(where + (f" with {', '.join(envelope.features)}" if envelope.features else ""))
    lines.append(f"tensors contiguous and aligned to {envelope.alignment_bytes} bytes")
    lines.append("the same bits on every call" if envelope.deterministic else "results may differ from call to call")
    lines.append(f"gradients of {', '.join(envelope.gradients)}" if envelope.gradients else "forward pass only")
    return tuple(lines)
