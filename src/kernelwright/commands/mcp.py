"""`kernelwright mcp` and `kernelwright skill`: how coding agents come to kernelwright.

Not here: what they may ask (desk.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from jinja2 import Environment, StrictUndefined

from kernelwright.commands.desk import Desk
from kernelwright.errors import KernelwrightError, MissingTool, UserError
from kernelwright.llm.prompts import GUIDED, guide
from kernelwright.llm.secrets import scrubbed

SKILL = Path(__file__).with_name("skill.md.j2")
USUAL = Path("kernelwright-out")
TOOLS = ("list_problems", "read_guide", "show_problem", "submit_kernel", "compare", "read_kernel")


@click.command(name="mcp", short_help="Serve coding agents over the Model Context Protocol.")
@click.option("--out", "folder", type=click.Path(path_type=Path), default=USUAL, show_default=True)
def mcp_command(folder: Path) -> None:
    """Serve coding agents over the Model Context Protocol, on standard input and output.

    An agent can list problems, read the guide, see a problem, submit a kernel and get its verdict, compare kernels and
    read them. It needs the extra `kernelwright[mcp]`.
    """
    server(Desk(folder)).run()


def server(desk: Desk) -> Any:
    """Returns an MCP server whose tools are the desk's functions.

    Raises:
        MissingTool: when the MCP SDK is not installed.
    """
    try:
        from mcp.server import MCPServer
    except ImportError:
        raise MissingTool("the MCP SDK is not installed", "pip install 'kernelwright[mcp]'") from None
    made = MCPServer("kernelwright", instructions="Kernels that survive a judge: read the guide, submit, improve.")
    for name in TOOLS:
        made.tool()(_answering(getattr(desk, name)))
    return made


def _answering(function: Callable[..., str]) -> Callable[..., str]:
    """Returns the function with its faults as text: an agent has to read what to do next."""

    @functools.wraps(function)
    def answer(*given: Any, **named: Any) -> str:
        try:
            return scrubbed(function(*given, **named))
        except KernelwrightError as error:
            return scrubbed(f"That cannot be done: {error}")

    return answer


@click.command(name="skill", short_help="Write the instructions that coding agents read.")
@click.option(
    "--out", "path", type=click.Path(path_type=Path), help="A file, such as .claude/skills/kernelwright/SKILL.md"
)
def skill_command(path: Path | None) -> None:
    """Print the instructions by which a coding agent writes kernels with kernelwright, or write them to a file."""
    text = skill()
    if path is None:
        click.echo(text, nl=False)
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}", "name another file with --out") from error


def skill() -> str:
    """Returns the instructions."""
    page = Environment(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True, trim_blocks=True)
    return page.from_string(SKILL.read_text()).render(guides=[guide(language) for language in GUIDED])
