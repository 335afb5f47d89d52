"""flashinfer-bench's tasks: definitions and workloads of a trace set in the user's clone become task files.

A trace set holds `definitions/**/*.json` (axes, tensors by axis names, a reference `run`), `workloads/**/*.jsonl`
(sizes of the axes that vary, and how each input is made), and perhaps `solutions/**/*.json` and `traces/**/*.jsonl`
with what was measured of them. A task here is a workload: the reference and a Model with inputs of these sizes.
Numbers that a workload reads from a safetensors file are copied into the task file: index tables of attention mean
something only together.

Not here: running them (running.py); floats of 8 and 4 bits, which no problem can hold.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelwright.bench.tasks import Task
from kernelwright.errors import UserError

LARGEST_DATA = 4 << 20
"""Bytes of safetensors that are copied into a task file."""
STORED = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32", "I8": "int8",
          "BOOL": "bool", "U8": "uint8", "F64": "float64", "I16": "int16"}  # fmt: skip
ENDING = """

# Workload {workload} of the definition {name}.
import base64 as _base64
import torch as _torch
import zlib as _zlib

{axes}


def _data(shape, dtype, text):
    flat = bytearray(_zlib.decompress(_base64.b85decode(text)))
    return _torch.frombuffer(flat, dtype=dtype).reshape(shape).clone()


def _random(shape, dtype):
    if dtype.is_floating_point:
        return _torch.randn(shape).to(dtype)
    if dtype is _torch.bool:
        return _torch.rand(shape) < 0.5
    most = 128 if dtype is _torch.int8 else 1024
    return _torch.randint(-most, most, shape, dtype=dtype)


class Model(_torch.nn.Module):
    def forward(self, {inputs}):
        made = run({inputs})
        return tuple(made[name] for name in {outputs!r}) if isinstance(made, dict) else made


def get_inputs():
    return [{drawn}]


def get_init_inputs():
    return []
"""


def tasks(root: Path, folder: Path, *, only: str = "", most: int = 3) -> tuple[Task, ...]:
    """Returns the tasks of a trace set, by definition.

    Args:
        root: the trace set's folder, or a clone with one in it.
        folder: task files are written there.
        only: tasks whose name (definition/workload) holds this text.
        most: workloads of each definition, spread over those that there are; 0 for all.

    Raises:
        UserError: when there is none, or a file cannot be read.
    """
    base = root_of(root)
    workloads = defaultdict(list)
    for line in _lines(base, "workloads"):
        workloads[line["definition"]].append(line["workload"])
    found: list[Task] = []
    for path in sorted((base / "definitions").rglob("*.json")):
        definition = _loaded(path)
        named = [(f"{definition['name']}/{w['uuid']}", w) for w in workloads[definition["name"]]]
        for name, workload in spread([pair for pair in named if only in pair[0]], most):
            text, refused = _text(definition, workload, base)
            file = folder / f"{name.replace('/', '_')}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            group = str(definition.get("op_type") or "other")
            found.append(Task(name=name, level=0, group=group, path=str(file), refused=refused))
    if not found:
        raise UserError(f"no workload in {base} has {only!r} in its name", "see --task")
    return tuple(found)


def root_of(root: Path) -> Path:
    """Returns the folder of a trace set: the one that is named, or the first one in it.

    Raises:
        UserError: when there is none.
    """
    if (root / "definitions").is_dir():
        return root
    inside = sorted(path.parent for path in root.rglob("definitions") if (path.parent / "workloads").is_dir())
    if not inside:
        fix = "clone a trace set, such as the data set flashinfer-trace, and give its folder"
        raise UserError(f"{root} holds no folders definitions and workloads", fix)
    return inside[0]


def spread(items: Sequence[Any], most: int) -> list[Any]:
    """Returns at most so many items, the first and the last among them."""
    if not most or len(items) <= most:
        return list(items)
    return [items[round(i * (len(items) - 1) / max(1, most - 1))] for i in range(most)]


def _text(definition: dict[str, Any], workload: dict[str, Any], base: Path) -> tuple[str, str]:
    """Returns a task file's text, and why no problem can be made of it."""
    axes = {name: axis["value"] for name, axis in definition["axes"].items() if axis["type"] == "const"}
    axes |= workload["axes"]
    drawn, refused = [], ""
    for name, spec in definition["inputs"].items():
        made = workload["inputs"].get(name, {"type": "random"})
        shape = "" if spec["shape"] is None else "".join(f"{axis}, " for axis in spec["shape"])
        dtype = f"_torch.{spec['dtype']}"
        if spec["dtype"].startswith(("float8", "float4")):
            refused = f"{name} is {spec['dtype']}, which no problem here can hold"
        if made["type"] == "scalar":
            drawn.append(repr(made["value"]))
        elif made["type"] == "safetensors":
            text, why = _stored(base / made["path"], made["tensor_key"])
            drawn.append(text)
            refused = refused or (f"{name}: {why}" if why else "")
        else:
            drawn.append(f"_random(({shape}), {dtype})")
    ending = ENDING.format(
        workload=workload["uuid"], name=definition["name"], inputs=", ".join(definition["inputs"]),
        axes="\n".join(f"{axis} = {size}" for axis, size in axes.items()),
        outputs=tuple(definition["outputs"]), drawn=", ".join(drawn),
    )  # fmt: skip
    return definition["reference"] + ending, refused


def _stored(path: Path, key: str) -> tuple[str, str]:
    """Returns the expression of a tensor in a safetensors file, or why there is none (the format: 8 bytes with the
    length of a JSON header, the header, the numbers)."""
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if size > path.stat().st_size:  # a pointer of Git LFS is text
                return "None", f"{path.name} is no safetensors file; `git lfs pull` fetches it"
            entry = json.loads(file.read(size))[key]
            start, end = entry["data_offsets"]
            if end - start > LARGEST_DATA:
                return "None", f"{key} has {end - start} bytes, more than {LARGEST_DATA}"
            file.seek(8 + size + start)
            data = file.read(end - start)
        text = base64.b85encode(zlib.compress(data)).decode()
        return f"_data({tuple(entry['shape'])}, _torch.{STORED[entry['dtype']]}, {text!r})", ""
    except OSError as error:
        return "None", f"{path} cannot be read ({error.strerror}); `git lfs pull` fetches it"
    except (ValueError, KeyError, TypeError) as error:
        return "None", f"{path.name} holds no usable tensor {key}: {error}"


def with_solutions(tasks: tuple[Task, ...], where: Path, written: Path, *, root: Path) -> tuple[Task, ...]:
    """Returns each task with each solution of its definition, the claims being those of the trace set.

    Raises:
        UserError: when there is none.
    """
    by_definition = defaultdict(list)
    for path in sorted(where.rglob("*.json")) if where.is_dir() else [where]:
        solution = _loaded(path)
        if "sources" in solution and "spec" in solution:
            by_definition[solution["definition"]].append(solution)
    base = root_of(root)
    definitions = {d["name"]: d for d in map(_loaded, sorted((base / "definitions").rglob("*.json")))}
    claims = {}
    for line in _lines(base, "traces"):
        if speedup := ((line.get("evaluation") or {}).get("performance") or {}).get("speedup_factor"):
            claims[line["workload"]["uuid"], line["solution"]] = float(speedup)
    found = []
    for task in tasks:
        definition, _, uuid = task.name.rpartition("/")
        for solution in by_definition[definition]:
            file, refused = _solution(definitions[definition], solution, written / solution["name"])
            solved = task.with_solution(file, claims.get((uuid, solution["name"])), refused=task.refused or refused)
            found.append(solved.named(f"{task.name}/{solution['name']}"))
    if not found:
        raise UserError(f"{where} holds no solution of these tasks", "solutions are JSON files with spec and sources")
    return tuple(found)


def _solution(definition: dict[str, Any], solution: dict[str, Any], folder: Path) -> tuple[str, str]:
    """Writes a solution's sources with a ModelNew that calls it; returns the file, and why it cannot be judged."""
    spec, path = solution["spec"], folder / "kernelwright_solution.py"
    file, _, function = spec["entry_point"].partition("::")
    if spec["language"] not in ("python", "triton"):
        return str(path), f"it is {spec['language']} bound by {spec.get('binding') or 'tvm-ffi'}: give it as Python"
    folder.mkdir(parents=True, exist_ok=True)
    for source in solution["sources"]:
        place = folder / source["path"]
        if not place.resolve().is_relative_to(folder.resolve()):
            raise UserError(f"the solution {solution['name']} names the file {source['path']}", "remove it")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(source["content"], encoding="utf-8")
    inputs = ", ".join(definition["inputs"])
    sizes = {
        axis: f"{name}.shape[{place}]"
        for name, tensor in definition["inputs"].items()
        for place, axis in enumerate(tensor["shape"] or ())
    }
    sizes |= {name: str(axis["value"]) for name, axis in definition["axes"].items() if axis["type"] == "const"}
    near = next(name for name, tensor in definition["inputs"].items() if tensor["shape"] is not None)
    made = ", ".join(
        f"torch.empty(({''.join(f'{sizes[a]}, ' for a in tensor['shape'] or ())}), dtype=torch.{tensor['dtype']}, "
        f"device={near}.device)"
        for tensor in definition["outputs"].values()
    )
    body = (
        f"out = ({made},)\n        {function}({inputs}, *out)\n        return out"
        if spec.get("destination_passing_style", True)
        else f"return {function}({inputs})"
    )
    module = ".".join(Path(file).with_suffix("").parts)
    path.write_text(
        f"import torch\n\nfrom {module} import {function}\n\n\nclass ModelNew(torch.nn.Module):\n"
        f"    def forward(self, {inputs}):\n        {body}\n",
        encoding="utf-8",
    )
    return str(path), ""


def _lines(base: Path, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in sorted((base / kind).rglob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.strip():
                found.append(_parsed(line, f"{path}:{number}"))
    return found


def _loaded(path: Path) -> dict[str, Any]:
    return _parsed(path.read_text(encoding="utf-8"), str(path))


def _parsed(text: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UserError(f"{where} is no JSON: {error}", "is it a file of flashinfer-bench?") from error
    if not isinstance(found, dict):
        raise UserError(f"{where} is no JSON object", "is it a file of flashinfer-bench?")
    return found
