"""`kernelwright analyze`: what a CUDA kernel's code is like, and what to try."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click

from kernelwright import analysis, api, codec
from kernelwright.commands.options import out
from kernelwright.errors import UserError
from kernelwright.store import Store
from kernelwright.types import Candidate


@click.command(name="analyze", short_help="Say what a CUDA kernel's code is like, and what to try.")
@click.argument("kernel", metavar="KERNEL")
@click.option("--arch", "architecture", default="sm_90a", show_default=True, help="sm_80, sm_90a, sm_100 ...")
@click.option("--block", type=click.IntRange(1, 1024), help="Threads of a block  [default: what the file says]")
@click.option(
    "--profile", "command", metavar="COMMAND", help="Profile the kernels that COMMAND launches with ncu, too."
)
@click.option("--out", "folder", type=click.Path(path_type=Path), help="The folder whose store holds the candidate.")
@click.option("--json", "as_json", is_flag=True, help="Print the analysis as JSON.")
def analyze_command(
    kernel: str, architecture: str, block: int | None, command: str | None, folder: Path | None, as_json: bool
) -> None:
    """Say what KERNEL's code is like: registers, occupancy, instructions, accesses, and what to try.

    KERNEL is a .cu file, which is compiled first, a .cubin, or the digest of a candidate in the store of --out.
    Neither a GPU nor a driver is needed, except for --profile.
    """
    if folder:
        with Store(folder / api.STORE, create=False) as store:
            candidate = store.get(kernel)
            if not isinstance(candidate, Candidate):
                raise UserError(f"{kernel} is no candidate", "give a candidate's digest, as reports print it")
            problem = store.get(candidate.problem)
        found = analysis.analyze_candidate(problem, candidate, architecture=architecture)
    else:
        found = analysis.analyze(Path(kernel), architecture=architecture, block=block)
    if as_json:
        data = codec.to_data(found)
        if command:
            profile = analysis.profile(shlex.split(command))
            data |= {"profile": codec.to_data(profile.rules), "launches": codec.to_data(profile.launches)}
        click.echo(json.dumps(data, indent=1))
        return
    for line in analysis.lines(found):
        out.print(line, markup=False, soft_wrap=True)
    if command:  # only now: where there are no counters, the lines above are the next best source
        _print(analysis.profile(shlex.split(command)))


def _print(profile: analysis.Profile) -> None:
    for launch in profile.launches:
        took = "" if launch.duration_us is None else f" {launch.duration_us:.1f} us"
        rate = launch.memory_bytes_per_s
        moved = "" if rate is None else f", {rate / 1e9:.0f} GB/s to and from memory"
        out.print(f"ncu {launch.kernel}:{took}{moved}", markup=False, soft_wrap=True)
    for rule in profile.rules:
        gain = f"about {rule.speedup_percent:.0f} %: " if rule.speedup_percent else ""
        out.print(f"ncu [{rule.name}] {rule.kernel}: {gain}{rule.text}", markup=False, soft_wrap=True)
