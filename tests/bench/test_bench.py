"""Benchmarks: tasks are found, shrunk copies run, rows survive a crash, and the page says what they say."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from kernelwright.bench import page, rows, running, shrinking, solutions, tasks
from kernelwright.bench.rows import Row
from kernelwright.cli import cli
from kernelwright.errors import SourceError, UserError

TASK = """import torch
import torch.nn as nn

batch_size, features = 4096, 2048
kernel = 3


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.layer = nn.Linear(features, 1024)

    def forward(self, x):
        return self.layer(x).sum(1)


def get_inputs():
    return [torch.rand(batch_size, features)]


def get_init_inputs():
    return [features]
"""


def clone(folder: Path) -> Path:
    """A folder laid out as the benchmark is, with tasks of our own."""
    for level, name in ((1, "2_relu"), (1, "10_gelu"), (2, "1_sums"), (2, "2_broken")):
        path = folder / "KernelBench" / f"level{level}" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TASK if name != "2_broken" else "Model = None\n")
    return folder


def row(task: str, **more: object) -> Row:
    return Row(task=task, level=1, device="cpu", state="faster", why="because", **more)  # type: ignore[arg-type]


def test_tasks_are_found_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    root = clone(tmp_path)
    found = tasks.kernelbench(root, levels=(1, 2))
    assert [t.name for t in found] == ["level1/2_relu", "level1/10_gelu", "level2/1_sums", "level2/2_broken"]
    assert tasks.kernelbench(root / "KernelBench", levels=(2,), only="sums")[0].level == 2
    with pytest.raises(UserError, match="no folders level1"):
        tasks.kernelbench(tmp_path / "KernelBench" / "level1", levels=(1,))
    with pytest.raises(UserError, match="no task"):
        tasks.kernelbench(root, levels=(1,), only="conv")


def test_solutions_are_found_by_level_and_number(tmp_path: Path) -> None:
    todo = tasks.kernelbench(clone(tmp_path), levels=(1, 2))
    folder = tmp_path / "solutions"
    (folder / "level1").mkdir(parents=True)
    (folder / "level1" / "10_mine.py").write_text("")
    (folder / "level_2_problem_1_sample.py").write_text("")
    (folder / "claims.json").write_text('{"level1/10_gelu": 3.5}')
    found = solutions.with_solutions(todo, folder, tmp_path / "written")
    assert [(t.name, Path(t.solution).name, t.claimed) for t in found] == [
        ("level1/10_gelu", "10_mine.py", 3.5),
        ("level2/1_sums", "level_2_problem_1_sample.py", None),
    ]


def test_sizes_are_halved_until_they_fit() -> None:
    text = shrinking.shrunk(TASK, 64)
    assert "batch_size, features = 64, 64" in text
    assert "kernel = 3" in text
    assert "nn.Linear(features, 1024)" in text  # what is not at the top level is left alone
    assert shrinking.shrunk(TASK, 4096) == TASK
    assert "é = (1500," not in shrinking.shrunk("é = (1500, 3)\n", 400)
    assert "(375, 3)" in shrinking.shrunk("é = (1500, 3)\n", 400)


def test_rows_are_read_back_and_an_unfinished_line_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    rows.append(path, row("a", eager=1.5, weak=("zeros pass for out",)))
    rows.append(path, row("b"))
    rows.append(path, row("a", eager=2.5))
    with path.open("a") as file:
        file.write('{"task": "c", "lev')
    found = rows.read(path)
    assert [(r.task, r.eager) for r in found] == [("a", 2.5), ("b", None)]
    path.write_text('{"task": 1\n' + path.read_text())
    with pytest.raises(UserError, match=":1 is no row"):
        rows.read(path)


def test_the_page_counts_weak_tasks_apart() -> None:
    made = (
        row("a", eager=4.0, best=2.0, low=1.9, high=2.1, baseline="compile:default"),
        row("b", eager=16.0, weak=("zeros pass",)),
    )
    assert page.geometric_mean([4.0, 16.0]) == pytest.approx(8.0)
    assert page.fast_p(made, 5.0) == 0.5
    text = page.markdown(made, title="Ours", command="kernelwright bench")
    assert "answers against eager 8.000x" in text
    assert "answers against eager 4.000x" in text
    assert "2.00x compile:default" in text
    assert "- `b`: zeros pass" in text
    assert page.distribution(made).count("<rect") == 3
    assert page.curve(made).count("<polyline") == 1
    assert "no kernel passed" in page.distribution(())


def test_a_task_that_loses_counts_as_the_baseline_that_is_its_answer() -> None:
    assert Row(task="a", level=1, device="cpu", state="baseline", why="", eager=0.5).answer == 1.0


def test_what_is_done_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    todo = tasks.kernelbench(clone(tmp_path), levels=(1,))
    made: list[str] = []

    def ready(task: tasks.Task, folder: Path, settings: running.Settings) -> Row:
        made.append(task.name)
        return row(task.name, key=running.key_of(task, settings))

    monkeypatch.setattr(running, "ready", ready)
    said: list[tuple[int, int]] = []
    out = tmp_path / "out"
    running.run(todo[:1], out, running.Settings())
    found = running.run(
        todo, out, running.Settings(), workers=2, on_row=lambda _r, done, total, _s: said.append((done, total))
    )
    assert sorted(made) == ["level1/10_gelu", "level1/2_relu"]
    assert [r.task for r in found] == ["level1/2_relu", "level1/10_gelu"]
    assert said == [(2, 2)]
    running.run(todo, out, running.Settings(cap=64))
    assert len(made) == 4  # other settings are other results


def test_an_interrupted_search_is_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    todo = tasks.kernelbench(clone(tmp_path), levels=(2,), only="sums")
    monkeypatch.setattr(running, "usable", lambda *_: ("task.py", None, False, 0))
    monkeypatch.setattr("kernelwright.api.optimize_captured", lambda *_, **__: SimpleNamespace(stopped="interrupted"))
    with pytest.raises(KeyboardInterrupt):
        running.run(todo, tmp_path / "out", running.Settings(admit=False))
    assert rows.read(tmp_path / "out" / "results.jsonl") == ()


def test_a_task_that_cannot_be_used_is_a_row_of_the_page(tmp_path: Path) -> None:
    root, out = clone(tmp_path), tmp_path / "out"
    arguments = ["bench", "kernelbench", "--root", str(root), "--level", "2", "--task", "broken", "--out", str(out)]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    assert "unusable" in (out / "README.md").read_text()
    assert (out / "fast_p.svg").read_text().startswith("<svg")
    assert rows.read(out / "results.jsonl")[0].state == "unusable"


def test_sizes_that_do_not_fit_get_a_larger_cap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    todo = tasks.kernelbench(clone(tmp_path), levels=(2,), only="sums")
    tried: list[str] = []

    def captured(source: Path, *_: object, **__: object) -> tuple[Path, str, bool]:
        tried.append(source.parent.name)
        if len(tried) < 3:
            raise SourceError("sizes do not match", "change them")
        return source, "captured", False

    monkeypatch.setattr(running, "_captured", captured)
    source, _, _, cap = running.usable(todo[0], tmp_path / "home", running.Settings(cap=32))
    assert (cap, tried) == (128, ["cap32", "cap64", "cap128"])
    assert "features = 128, 128" in Path(source).read_text()
