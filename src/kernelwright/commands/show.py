"""`kernelwright show`: what a source is, before anything is searched.

What takes long to import is imported when the command runs, after its first line is shown.
"""

from __future__ import annotations

from typing import Any

import click
from rich.text import Text

from kernelwright.commands.options import err, out, source_options
from kernelwright.console import Progress, graph_text
from kernelwright.graph import Capture


@click.command(name="show", short_help="Show what SOURCE is, and which experts can work on it.")
@source_options
@click.option("--reference", is_flag=True, help="Print the reference's source.")
@click.option("--graph", "show_graph", is_flag=True, help="Print the operator graph.")
@click.option("--skeleton", is_flag=True, help="Print a kernel file to start from.")
@click.option("--language", type=click.Choice(["cpp", "cuda"]), default="cpp", show_default=True, help="Of --skeleton.")
def show_command(
    source: str, options: dict[str, Any], reference: bool, show_graph: bool, skeleton: bool, language: str
) -> None:
    """Show what SOURCE is: its tensors, and which experts can work on it."""
    with Progress(err) as progress:
        progress.step(f"reading {source}")
        from kernelwright import capture

        captured = capture.load(source, on_event=progress.step, **options)
    if reference:
        click.echo("\n".join(file.text for file in captured.problem.reference))
    elif skeleton:
        from kernelwright import languages

        click.echo(languages.skeleton(captured.problem, language=language))
    elif show_graph:
        click.echo(graph_text(captured))
    else:
        _print_problem(captured)


def _print_problem(captured: Capture) -> None:
    from kernelwright import experts, languages, report
    from kernelwright.commands.outcomes import HAND

    problem = captured.problem
    out.print(Text(problem.name, "bold") + (f": {problem.description}" if problem.description else ""))
    for spec in problem.arguments:
        out.print(f"  {spec.role:<10} {report.tensor_text(spec)}", markup=False)
    for axis in problem.axes:
        places = ", ".join(f"{name}[{dim}]" for name, dim in axis.places)
        out.print(f"  axis       {axis.name} = {axis.low}..{axis.high}: {places}", markup=False)
    work = f"{problem.flops:,} operations, " if problem.flops else ""
    out.print(f"  {work}at least {problem.min_bytes:,} bytes moved")
    if captured.graph is None:
        out.print(f"no graph: {captured.reason}", markup=False, soft_wrap=True)
        out.print(HAND, soft_wrap=True)
        return
    offer = experts.templates(problem, captured.graph, target=languages.detect_target())
    for template in offer.templates:
        out.print(f"expert {template.name}: {template.space.size()} schedules")
        for parameter in template.space.parameters:
            out.print(f"  {parameter.name}: {', '.join(map(str, parameter.values))}")
    for refusal in offer.refusals:
        out.print(f"not done: {refusal.text}", markup=False, soft_wrap=True)
    if not offer.templates:
        out.print(HAND, soft_wrap=True)
