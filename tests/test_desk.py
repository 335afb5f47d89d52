"""What coding agents may ask: the desk's answers, and the protocol where its SDK is installed."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import mcp
import pytest
from click.testing import CliRunner
from mcp.client.stdio import stdio_client

from kernelwright.cli import cli
from kernelwright.commands.desk import Desk
from kernelwright.commands.mcp import TOOLS, skill
from kernelwright.errors import UserError

PROBLEM = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2


def get_inputs():
    return [torch.randn(32, 48)]


def get_init_inputs():
    return []
"""
KERNEL = """extern "C" void twice(const float* x, float* out) {
    for (int i = 0; i < 32 * 48; ++i) out[i] = x[i] < 0.0f ? 0.0f : FACTOR * x[i];
}
"""


@pytest.mark.slow
def test_an_agent_can_read_submit_and_compare(tmp_path: Path) -> None:
    source = str(tmp_path / "twice.py")
    Path(source).write_text(PROBLEM)
    desk = Desk(tmp_path / "out")
    assert "softmax" in desk.list_problems()
    shown = desk.show_problem(source, "cpp")
    assert "torch.relu(x) * 2" in shown
    assert "float32[32, 48]" in shown
    assert 'extern "C" void' in shown
    assert desk.compare(source, "cpp") == "Nothing was judged yet."
    right = desk.submit_kernel(source, KERNEL.replace("FACTOR", "2.0f"), "cpp", "screen")
    assert "It passed" in right
    assert "against eager" in right
    digest = right.split()[1]
    assert "2.0f" in desk.read_kernel(source, digest[:20])
    assert digest[:15] in desk.compare(source, "cpp")
    with pytest.raises(UserError, match="defines no extern"):
        desk.submit_kernel(source, "int x;", "cpp", "screen")
    with pytest.raises(UserError, match="no guide"):
        desk.read_guide("fortran")


def test_the_skill_tells_how(tmp_path: Path) -> None:
    text = skill()
    assert text.startswith("---\nname: kernelwright\n")
    assert "kernelwright judge SOURCE" in text
    for tool in TOOLS:
        assert tool in text
    assert "## How a CUDA C++ kernel is written here" in text
    path = tmp_path / "deep" / "SKILL.md"
    assert CliRunner().invoke(cli, ["skill", "--out", str(path)]).exit_code == 0
    assert path.read_text() == text


def test_the_protocol_offers_the_tools(tmp_path: Path) -> None:
    async def talk() -> tuple[set[str], str, str]:
        server = mcp.StdioServerParameters(
            command=sys.executable, args=["-m", "kernelwright", "mcp", "--out", str(tmp_path)], env=dict(os.environ)
        )
        async with stdio_client(server) as (read, write), mcp.ClientSession(read, write) as session:
            await session.initialize()
            names = {tool.name for tool in (await session.list_tools()).tools}
            listed = await session.call_tool("list_problems", {})
            refused = await session.call_tool("read_guide", {"language": "fortran"})
            return names, str(listed.content[0]), str(refused.content[0])

    names, listed, refused = asyncio.run(asyncio.wait_for(talk(), 240))
    assert names == set(TOOLS)
    assert "softmax" in listed
    assert "there is no guide for 'fortran'" in refused
