"""robust-kbench, flashinfer-bench and released solutions: layouts are read, task files compute what they should.

The tasks are our own, in the layouts of the public repositories.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kernelwright import capture
from kernelwright.bench import flashinfer, page, robust, running, solutions, tasks
from kernelwright.bench.rows import Row
from kernelwright.errors import UserError

FORWARD = """import torch
import torch.nn as nn


def forward_fn(x, weight, scale):
    return (x @ weight.T) * scale


class Model(nn.Module):
    def __init__(self, features, scale=2.0, init_method="normal"):
        super(Model, self).__init__()
        self.spare = nn.Linear(2, 2)
        self.weight = nn.Parameter(torch.ones(4, features) if init_method == "ones" else torch.randn(4, features))
        self.scale = scale

    def forward(self, x, fn=forward_fn):
        return fn(x, self.weight, self.scale)


def get_inputs(batch=3, features=5):
    return [torch.randn(batch, features, requires_grad=True)]


input_names = ["x"]
"""
CONFIG = {
    "single_input_configs": [{"batch": 6}],
    "single_init_configs": [{"init_method": "ones"}],
    "single_shared_configs": [{"features": 8}],
    "multi_input_configs": [{"batch": 6}, {"batch": 7}],
    "multi_init_configs": [{"init_method": "ones"}, {}],
    "multi_shared_configs": [{"features": 8}],
}


def robust_clone(root: Path) -> Path:
    for place in ("scaled", "kernelbench/level_1/task_10", "kernelbench/level_1/task_2"):
        folder = root / "tasks" / place
        folder.mkdir(parents=True)
        for direction in ("forward", "backward") if place == "scaled" else ("forward",):
            (folder / f"func_{direction}.py").write_text(FORWARD)
            (folder / f"config_{direction}.json").write_text(json.dumps(CONFIG))
    (root / "highlighted" / "scaled" / "forward").mkdir(parents=True)
    (root / "highlighted" / "scaled" / "forward" / "kernel.cu").write_text("// code\n")
    lines = ["Correct,Speedup,task_name,forward,Code", 'True,2.5,scaled,True,"a,\nb"', "True,3.5,scaled,True,x"]
    (root / "highlighted" / "results.csv").write_text("\n".join([*lines, "False,9.0,scaled,True,x"]) + "\n")
    return root


def executed(path: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(Path(path).read_text(), path, "exec"), names)
    return names


def test_robust_tasks_are_the_settings_of_their_files(tmp_path: Path) -> None:
    root = robust_clone(tmp_path / "clone")
    found = robust.tasks(root, tmp_path / "out")
    assert [(t.name, t.group, t.gradients, t.published) for t in found] == [
        ("scaled/forward", "forward", (), 3.5),
        ("scaled/backward", "backward", ("*",), None),
        ("kernelbench/level_1/task_2/forward", "forward", (), None),
        ("kernelbench/level_1/task_10/forward", "forward", (), None),
    ]
    names = executed(found[0].path)
    (x,) = names["get_inputs"]()
    assert (tuple(x.shape), x.requires_grad) == ((6, 8), False)
    assert names["get_init_inputs"]() == [8, 2.0, "ones"]
    made = names["Model"](*names["get_init_inputs"]())
    assert torch.allclose(made(x), 2.0 * x.sum(1, keepdim=True).expand(6, 4), rtol=1e-4, atol=1e-5)
    every = robust.tasks(root, tmp_path / "out", directions=("forward",), every=True, only="scaled")
    assert [t.name for t in every] == [f"scaled/forward/{i}" for i in range(4)]
    with pytest.raises(UserError, match="no task"):
        robust.tasks(root, tmp_path / "out", only="conv")
    with pytest.raises(UserError, match="no folder tasks"):
        robust.tasks(tmp_path, tmp_path / "out")
    (root / "tasks" / "scaled" / "config_forward.json").write_text("{}")
    with pytest.raises(UserError, match="cannot be used: "):
        robust.tasks(root, tmp_path / "out")


def test_a_backward_task_leaves_out_what_no_output_depends_on(tmp_path: Path) -> None:
    (task,) = robust.tasks(robust_clone(tmp_path), tmp_path / "out", directions=("backward",))
    captured = capture.load(task.path, gradients=task.gradients)
    assert [spec.name for spec in captured.problem.outputs] == ["out", "grad_x", "grad_weight"]
    assert captured.graph is not None


def test_robust_kernels_become_python_that_compiles_them(tmp_path: Path) -> None:
    root = robust_clone(tmp_path)
    (task,) = robust.with_kernels(robust.tasks(root, tmp_path / "out"), root / "highlighted", tmp_path / "written")
    text = Path(task.solution).read_text()
    assert "class ModelNew(Model)" in text
    assert "cuda_sources='// code\\n'" in text
    assert task.claimed == 3.5
    assert "written for a GPU" in solutions.refusal(text, "cpu")
    with pytest.raises(UserError, match="no forward kernel"):
        robust.with_kernels((task,), tmp_path / "out", tmp_path)


@pytest.mark.parametrize(("there", "missing"), [((), "nvcc and ninja"), (("ninja",), "nvcc"), (("nvcc", "ninja"), "")])
def test_code_that_compiles_cuda_itself_names_the_compiler_that_is_missing(
    there: tuple[str, ...], missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}" if name in there else None)
    said = solutions.refusal("from torch.utils.cpp_extension import load_inline", "cuda")
    assert (f", and {missing} is not here" in said) if missing else said == ""
    assert solutions.refusal("import torch\n", "cpu") == solutions.refusal("import torch\n", "cuda") == ""


DEFINITION = {
    "name": "scaled_product", "op_type": "gemm",
    "axes": {"M": {"type": "var"}, "N": {"type": "const", "value": 3}, "K": {"type": "const", "value": 4}},
    "inputs": {
        "A": {"shape": ["M", "K"], "dtype": "float32"}, "B": {"shape": ["N", "K"], "dtype": "float32"},
        "rows": {"shape": ["M"], "dtype": "int64"}, "scale": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"C": {"shape": ["M", "N"], "dtype": "float32"}},
    "reference": "import torch\n\ndef run(A, B, rows, scale):\n    return {'C': (A @ B.T)[rows] * scale}\n",
}  # fmt: skip


def trace_set(root: Path) -> Path:
    for folder in ("definitions/gemm", "workloads/gemm", "solutions", "traces", "blob"):
        (root / folder).mkdir(parents=True)
    (root / "definitions" / "gemm" / "scaled_product.json").write_text(json.dumps(DEFINITION))
    stored = np.array([2, 0, 1, 1], dtype=np.int64)
    header = json.dumps({"rows": {"dtype": "I64", "shape": [4], "data_offsets": [0, 32]}}).encode()
    data = len(header).to_bytes(8, "little") + header + stored.tobytes()
    (root / "blob" / "rows.safetensors").write_bytes(data)
    (root / "blob" / "pointer.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n")
    lines = []
    for uuid, file in (("w0", "rows"), ("w1", "pointer"), ("w2", "rows"), ("w3", "rows")):
        inputs = {
            "A": {"type": "random"}, "B": {"type": "random"}, "scale": {"type": "scalar", "value": 0.5},
            "rows": {"type": "safetensors", "path": f"blob/{file}.safetensors", "tensor_key": "rows"},
        }  # fmt: skip
        workload = {"uuid": uuid, "axes": {"M": 4}, "inputs": inputs}
        lines.append({"definition": "scaled_product", "solution": None, "workload": workload, "evaluation": None})
    (root / "workloads" / "gemm" / "scaled_product.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    measured = {"performance": {"speedup_factor": 7.5}}
    trace = {"definition": "scaled_product", "solution": "mine", "workload": {"uuid": "w0"}, "evaluation": measured}
    (root / "traces" / "all.jsonl").write_text(json.dumps(trace) + "\n")
    code = "import torch\n\ndef run(A, B, rows, scale, C):\n    C.copy_((A @ B.T)[rows] * scale)\n"
    spec: dict[str, Any] = {"language": "python", "entry_point": "main.py::run", "destination_passing_style": True}
    for name, language in (("mine", "python"), ("theirs", "cuda")):
        sources = [{"path": "main.py", "content": code}]
        solution = {"name": name, "definition": "scaled_product", "spec": spec | {"language": language}}
        (root / "solutions" / f"{name}.json").write_text(json.dumps({**solution, "sources": sources}))
    return root


def test_workloads_become_task_files_with_their_numbers(tmp_path: Path) -> None:
    root = trace_set(tmp_path / "clone" / "set")
    found = flashinfer.tasks(root.parent, tmp_path / "out")  # the set lies in the clone
    assert [t.name for t in found] == ["scaled_product/w0", "scaled_product/w2", "scaled_product/w3"]
    assert {t.group for t in found} == {"gemm"}
    names = executed(found[0].path)
    a, b, rows, scale = names["get_inputs"]()
    assert (rows.tolist(), scale, tuple(a.shape), tuple(b.shape)) == ([2, 0, 1, 1], 0.5, (4, 4), (3, 4))
    (c,) = names["Model"]()(a, b, rows, scale)
    assert torch.allclose(c, (a @ b.T)[rows] * 0.5)
    (pointer,) = flashinfer.tasks(root, tmp_path / "out", only="w1", most=0)
    assert "git lfs pull" in pointer.refused
    row = running.ready(pointer, tmp_path / "results", running.Settings())
    assert isinstance(row, Row)
    assert (row.state, row.group) == ("unusable", "gemm")
    with pytest.raises(UserError, match="no workload"):
        flashinfer.tasks(root, tmp_path / "out", only="attention")
    with pytest.raises(UserError, match="no folders definitions"):
        flashinfer.tasks(tmp_path / "out", tmp_path / "out")


def test_solutions_of_a_trace_set_are_called_as_they_want_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = trace_set(tmp_path / "set")
    todo = flashinfer.tasks(root, tmp_path / "out", only="w0")
    mine, theirs = flashinfer.with_solutions(todo, root / "solutions", tmp_path / "written", root=root)
    assert (mine.name, mine.claimed, mine.refused) == ("scaled_product/w0/mine", 7.5, "")
    assert "bound by tvm-ffi" in theirs.refused
    monkeypatch.syspath_prepend(str(Path(mine.solution).parent))
    a, b, rows, scale = executed(mine.path)["get_inputs"]()
    (c,) = executed(mine.solution)["ModelNew"]()(a, b, rows, scale)
    assert torch.allclose(c, (a @ b.T)[rows] * 0.5)
    with pytest.raises(UserError, match="no solution"):
        flashinfer.with_solutions(todo, tmp_path / "out", tmp_path / "written", root=root)


@pytest.mark.parametrize("layout", ["lines", "levels"])
def test_a_released_file_brings_its_own_references_and_claims(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "KernelBench" / "level1" / "3_ours.py"
    path.parent.mkdir(parents=True)
    path.write_text("# newer sizes\n")
    todo = tasks.kernelbench(tmp_path, levels=(1,))
    entries = [
        {"level_id": 1, "task_id": 3, "ref_code": "# old sizes\n", "custom_code": "# faster\n", "score_default": 6.5},
        {"level_id": 1, "task_id": 4, "ref_code": "", "custom_code": None, "score_default": None},
    ]
    file = tmp_path / "released.json"
    if layout == "levels":
        named = [{"task_id": e["task_id"], "ref_code": e["ref_code"], "custom_code": e["custom_code"]} for e in entries]
        file.write_text(json.dumps({"1": [{**e, "score": "6.500"} for e in named]}))
    else:
        file.write_text("\n".join(map(json.dumps, entries)) + "\n")
    (found,) = solutions.with_solutions(todo, file, tmp_path / "written")
    assert (found.name, found.claimed) == ("level1/3_ours", 6.5)
    assert Path(found.path).read_text() == "# old sizes\n"
    assert Path(found.solution).read_text() == "# faster\n"
    file.write_text("no JSON")
    with pytest.raises(UserError, match="no released file"):
        solutions.with_solutions(todo, file, tmp_path / "written")


def test_the_page_says_which_claims_hold_and_what_the_others_fell_by() -> None:
    def row(task: str, outcome: str, **more: Any) -> Row:
        state: Any = "faster" if outcome == "passed" else "no candidate"
        return Row(task=task, level=1, device="cpu", state=state, why="because", outcome=outcome, **more)

    rows = [
        row("a", "passed", claimed=2.0, eager=2.0),
        row("b", "passed", claimed=8.0, eager=2.0),
        row("c", "check: state", claimed=65.0),
        row("d", "check: state", claimed=3.0),
    ]
    text = page.markdown(rows, title="Ours", command="kernelwright bench")
    assert "4 solutions were judged, 2 passed; of 2 with a claim 1 reach 80 % of it" in text
    assert "2.00x against eager, 4.00x claimed" in text
    assert "- 2 x check: state: `c`, `d`" in text
    assert page.claims([Row(task="a", level=1, device="cpu", state="faster", why="")]) == []
