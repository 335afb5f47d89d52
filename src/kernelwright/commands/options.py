"""What several commands share: the consoles, durations, and the options that describe a SOURCE.

Not here: the commands.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import click
from rich.console import Console

UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
MOST_SEED = (1 << 63) - 1
"""The largest number that a store can hold."""
DEVICES = ("cpu", "cuda")
JUDGED_ON = (*DEVICES, "emulated")
EFFORTS = ("measure", "report", "screen")
"""What `api` and the judge's policies say too, here so that help and a first line need not load them."""
PIPE_WIDTH = 140
"""Columns of what is printed into a pipe or a file, where no terminal gives its own."""

out = Console(highlight=False)
err = Console(stderr=True, highlight=False, soft_wrap=True)
if not out.is_terminal:
    out = Console(highlight=False, width=PIPE_WIDTH)


class Seconds(click.ParamType[float]):
    """A duration: 60s, 5m, 1h, or plain seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Returns seconds."""
        if isinstance(value, float | int):
            return float(value)
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", str(value).strip())
        if not match or float(match[1]) <= 0:
            self.fail(f"{value!r} is no duration; write 60s, 5m or 1h", param, ctx)
        return float(match[1]) * UNITS[match[2]]


def source_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds what every command that takes a SOURCE accepts; the command gets it as `source` and `options`."""

    @functools.wraps(command)
    def gathered(
        source: str, inputs: tuple[str, ...], evaluation: bool, dynamic: tuple[str, ...], gradients: bool,
        gradient: tuple[str, ...], **others: Any,
    ) -> None:  # fmt: skip
        wanted = gradient or (("*",) if gradients else ())
        options = {"inputs": inputs, "evaluation": evaluation, "dynamic": dynamic, "gradients": wanted}
        command(source=source, options=options, **others)

    made: Callable[..., None] = gathered
    # The one that is applied last stands first in the help.
    for option in (
        click.option(
            "--gradient", multiple=True, metavar="NAME", help="The same for this input or parameter; can be repeated."
        ),
        click.option(
            "--gradients", is_flag=True, help="Forward and backward together, for all floating inputs and parameters."
        ),
        click.option(
            "--dynamic", multiple=True, metavar="AXIS",
            help='A size that varies, as "B=x[0],mask[0]:1..8192"; a file can say it as DYNAMIC.',
        ),
        click.option("--eval", "evaluation", is_flag=True, help="Call .eval() on the module before use."),
        click.option(
            "--input", "inputs", multiple=True, metavar="SPEC",
            help='For file.py:function, once for each argument: "float32[4096,1024]", "int64[512]=0..31999".',
        ),
        click.argument("source"),
    ):  # fmt: skip
        made = option(made)
    return made
