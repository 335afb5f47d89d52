"""A bundle on the disk: kernels with everything that running them takes, and the evidence; read without a framework.

    DIR/manifest.json                 format, kernels, digest of every file
    DIR/README.md                     what it is, where it is verified, what was not checked
    DIR/kernels/NAME/kernel.so        the library (kernel.cubin for a device)
    DIR/kernels/NAME/evidence.json    problem, candidate, artifact, target, policy, record: for `verify`
    DIR/kernels/NAME/envelope.json    the same for people: where it is verified
    DIR/kernels/NAME/source/...       the candidate's sources
    DIR/kernels/NAME/reference/...    the original
    DIR/kernels/NAME/report.html

**Covers**: damaged, missing and additional files among the kernels; formats of a newer version.
**Does not cover**: who made it. A bundle is code: load those that you trust.
Not here: making one (export.py), running one (operator.py).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelwright import codec
from kernelwright.deploy.envelope import Envelope, envelope_of
from kernelwright.errors import KernelwrightError, UserError
from kernelwright.types import Artifact, Candidate, Policy, Problem, Record, Target, digest

FORMAT = 1
MANIFEST = "manifest.json"
EVIDENCE = "evidence.json"
KERNELS = "kernels"
BINARY = {"cpu": "kernel.so", "cuda": "kernel.cubin"}
MEMBERS = {
    "problem": Problem, "kernel": Candidate, "artifact": Artifact, "target": Target, "policy": Policy, "record": Record,
}  # fmt: skip
AGAIN = "export it again"


@dataclass(frozen=True, slots=True)
class BundledKernel:
    """One kernel of a bundle, read and found whole."""

    name: str
    """The problem's name and the first digits of the candidate's digest: its folder, and part of its operator."""
    problem: Problem
    candidate: Candidate
    artifact: Artifact
    target: Target
    policy: Policy
    record: Record
    serial: bool
    """It keeps data of its own, so that two calls may not run at once."""
    binary: Path

    @property
    def envelope(self) -> Envelope:
        """Where it was verified."""
        return envelope_of(self.problem, self.target, self.record)


def read_bundle(folder: str | Path) -> tuple[BundledKernel, ...]:
    """Returns the kernels of a bundle, every file checked against its digest.

    Raises:
        UserError: no bundle, damaged, or of a newer version; the message names the file.
    """
    root = Path(folder)
    manifest = _manifest(root)
    for path, expected in manifest["files"].items():
        file = root / path
        if Path(path).is_absolute() or ".." in Path(path).parts or file.is_symlink():
            raise UserError(f"{root}: the manifest names {path!r}, which leads out of the bundle", AGAIN)
        if not file.is_file() or file_digest(file) != expected:
            raise UserError(f"{file} is {'not what was exported' if file.is_file() else 'missing'}", AGAIN)
    listed = {str(Path(path)) for path in manifest["files"]}
    files = (path for path in (root / KERNELS).rglob("*") if not path.is_dir())
    # Installers compile every .py that they find; nobody imports what they make of a bundle's sources.
    found = {str(path.relative_to(root)) for path in files if path.parent.name != "__pycache__"}
    if extra := sorted(found - listed):
        raise UserError(f"{root / extra[0]} was not exported with the others", "remove it, or export again")
    for name in map(str, manifest["kernels"]):
        if str(Path(KERNELS, name, EVIDENCE)) not in listed:
            raise UserError(f"{root}: the manifest names a kernel {name!r} and no file of it", AGAIN)
    return tuple(_kernel(root, str(name)) for name in manifest["kernels"])


def _manifest(root: Path) -> dict[str, Any]:
    path = root / MANIFEST
    try:
        data = codec.parsed(path.read_text(encoding="utf-8"))
    except OSError:
        raise UserError(f"{root} is no bundle: it has no {MANIFEST}", "`kernelwright export` makes one") from None
    except (ValueError, codec.CodecError) as error:
        raise UserError(f"{path} cannot be read: {error}", AGAIN) from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise UserError(f"{path} has another format than {FORMAT}", "update kernelwright, or export it again")
    if not isinstance(data.get("files"), dict) or not isinstance(data.get("kernels"), list):
        raise UserError(f"{path} lacks its files or kernels", AGAIN)
    return data


def _kernel(root: Path, name: str) -> BundledKernel:
    folder = root / KERNELS / name
    path = folder / EVIDENCE
    try:
        data = codec.parsed(path.read_text(encoding="utf-8"))
        values = {member: codec.from_data(data[member]) for member in MEMBERS}
    except (OSError, ValueError, KeyError, TypeError, KernelwrightError) as error:
        raise UserError(f"{path} cannot be read: {error}", "update kernelwright, or export it again") from None
    for member, kind in MEMBERS.items():
        if not isinstance(values[member], kind):
            raise UserError(f"{path}: {member} is a {type(values[member]).__name__}", AGAIN)
        if found := codec.misfit(values[member]):
            raise UserError(f"{path}: {found}", AGAIN)
    record, artifact, target = values["record"], values["artifact"], values["target"]
    binary = folder / BINARY[target.kind]
    if file_digest(binary) != artifact.blob:
        raise UserError(f"{binary} is not what was built and judged", AGAIN)
    if (record.problem, record.candidate) != (digest(values["problem"]), digest(values["kernel"])):
        raise UserError(f"{path}: the record belongs to another kernel", AGAIN)
    return BundledKernel(
        name=name, problem=values["problem"], candidate=values["kernel"], artifact=artifact, target=target,
        policy=values["policy"], record=record, serial=bool(data.get("serial", True)), binary=binary,
    )  # fmt: skip


def file_digest(path: Path) -> str:
    """Returns `sha256:...` of a file, empty where there is none."""
    try:
        with path.open("rb") as file:
            return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
