"""The written package against the real verifiers library, where that is installed (`pip install verifiers`)."""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("verifiers", reason="the verifiers library is not installed")
pytestmark = pytest.mark.filterwarnings("default")  # the library's own warnings are not ours

from kernelwright.gym.packing import NAME, write_package  # noqa: E402
from kernelwright.gym.server import Server  # noqa: E402

from .fakes import FakeJudge, kernel, opened  # noqa: E402


def test_the_library_loads_and_scores_the_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import verifiers.v1 as vf
    from verifiers.v1.graph import MessageNode
    from verifiers.v1.trace import AgentInfo, Trace, TraceTask
    from verifiers.v1.types import AssistantMessage
    from verifiers.v1.utils.loaders import load_taskset, taskset_config_type

    write_package(tmp_path / "package")
    monkeypatch.syspath_prepend(str(tmp_path / "package"))
    gym = opened(tmp_path, FakeJudge())
    gym.start()
    with Server(gym) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        made = taskset_config_type(NAME).model_validate(
            {"id": NAME, "problems": ["softmax", "rms_norm"], "task": {"url": server.url, "patience_s": 60}}
        )
        tasks = list(load_taskset(made))
        assert [task.key for task in tasks] == ["softmax/cpp", "rms_norm/cpp"]
        assert "torch.softmax" in tasks[0].data.prompt_text
        found = {}
        for mark in ("2.0x", "wrong", "cheat"):
            said = AssistantMessage(content=f"Intent: try\n\n```cpp\n{kernel(mark)}```")
            trace = Trace(
                task=TraceTask(type="KernelTask", data=tasks[0].data), nodes=[MessageNode(message=said, sampled=True)],
                state=vf.State(), agent=AgentInfo(config=vf.AgentConfig()),
            )  # fmt: skip
            asyncio.run(tasks[0].score(trace))
            found[mark] = (round(trace.reward, 3), trace.metrics["passed"], trace.metrics["cheat"])
        server.shutdown()
        thread.join()
    assert gym.stop(grace_s=60)
    assert found["2.0x"][0] > 0.5
    assert found == {"2.0x": (found["2.0x"][0], 1.0, 0.0), "wrong": (0.0, 0.0, 0.0), "cheat": (-1.0, 0.0, 1.0)}
    assert importlib.import_module(NAME).KernelTaskset is not None
    for name in [n for n in sys.modules if n.startswith(NAME)]:
        del sys.modules[name]
