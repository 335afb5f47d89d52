"""`kernelwright export`: judged kernels as a bundle, a wheel, or a repository of the Hugging Face kernels hub.

Not here: what a bundle is (deploy/bundle.py) and how it is made (deploy/export.py, deploy/package.py).
"""

from __future__ import annotations

from pathlib import Path

import click

from kernelwright.commands.options import out
from kernelwright.deploy.bundle import read_bundle
from kernelwright.deploy.export import described, export
from kernelwright.deploy.package import write_hub_layout, write_wheel
from kernelwright.run.recollect import recollect


@click.command(name="export", short_help="Make a bundle of RECORDs that programs can load.")
@click.argument("records", metavar="RECORD...", nargs=-1, required=True)
@click.option("-o", "bundle", type=click.Path(path_type=Path), required=True, metavar="DIR", help="The bundle.")
@click.option(
    "--out", "folders", type=click.Path(path_type=Path), multiple=True,
    help="A result folder whose store is searched for a digest  [default: kernelwright-out/*]",
)  # fmt: skip
@click.option("--name", default="", help="The bundle's name  [default: the first problem's]")
@click.option("--wheel", type=click.Path(path_type=Path), metavar="DIR", help="Write a wheel of it into DIR, too.")
@click.option(
    "--hf-kernels", "hub", type=click.Path(path_type=Path), metavar="DIR",
    help="Write it as a repository of the Hugging Face kernels hub, too.",
)  # fmt: skip
def export_command(
    records: tuple[str, ...], bundle: Path, folders: tuple[Path, ...], name: str, wheel: Path | None, hub: Path | None
) -> None:
    """Make a bundle of RECORDs that passed: what `kernelwright.load(DIR)` turns into torch operators.

    RECORD is a result's folder (or its best folder), an evidence.json, or a digest, as for `kernelwright verify`. The
    bundle holds libraries or cubins, launch plans, sources, where each kernel was verified, its evidence, and what was
    not checked. Loading it needs no compiler, no Triton and no network.
    """
    folder = export([recollect(record, folders=folders) for record in records], bundle, name=name)
    for kernel in read_bundle(folder):
        out.print(f"{kernel.name}: {kernel.problem.name}", markup=False, soft_wrap=True)
        for line in described(kernel.envelope):
            out.print(f"  {line}", markup=False, soft_wrap=True)
    out.print(f"bundle: {folder}", markup=False, soft_wrap=True)
    if wheel:
        out.print(f"wheel: {write_wheel(folder, wheel, name=name)}", markup=False, soft_wrap=True)
    if hub:
        out.print(f"hub repository: {write_hub_layout(folder, hub, name=name)}", markup=False, soft_wrap=True)
