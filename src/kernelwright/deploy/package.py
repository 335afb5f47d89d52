"""A bundle as something to install or to publish: a wheel, or the layout of the Hugging Face kernels hub.

Both carry the part of kernelwright that runs kernels, with its imports made relative, so that neither needs
kernelwright, a compiler or a network, and several of them can live in one process. torch (and, for a device,
cuda-bindings) is all that they import.
The hub's layout is that of its kernel requirements: build/VARIANT with an `__init__.py`, metadata.json and, for older
clients, a folder of the repository's name. Nothing of ours links to torch, so the variants are those without a torch
version (torch-cpu, torch-cuda); a processor that a kernel is not for gets the original.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

from kernelwright.deploy.bundle import BundledKernel, read_bundle
from kernelwright.errors import UserError

ROOT = Path(__file__).parents[1]
RUNTIME = "_runtime"
CONTENTS = "_bundle"
START = ("deploy/__init__.py", "deploy/operator.py", "deploy/bundle.py", "deploy/native.py", "deploy/device.py")
LEFT_OUT = ("deploy/stored.py", "deploy/export.py", "deploy/package.py")
"""What makes bundles is not carried: it needs the judge, the languages and a compiler."""
IMPORT = re.compile(r"^(?P<indent>[ \t]*)from kernelwright\.?(?P<rest>[\w.]*) import ", re.MULTILINE)
SUMMARY = "Kernels with their evidence, made and judged by kernelwright"
LICENSE = "apache-2.0"
WHEEL = "Wheel-Version: 1.0\nGenerator: kernelwright\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n"
PLATFORM = "linux_{machine}"
"""Not manylinux: a library was built against the C library of its own machine."""
EPOCH = (1980, 1, 1, 0, 0, 0)
"""Of every file in a wheel, so that equal bundles make equal wheels."""


def runtime_sources() -> dict[str, str]:
    """Returns the part of kernelwright that loads and runs bundles: text by path, imports made relative."""
    texts: dict[str, str] = {}
    waiting = list(START)
    while waiting:
        path = waiting.pop()
        if path in texts or path in LEFT_OUT:
            continue
        text = (ROOT / path).read_text(encoding="utf-8")
        waiting += [found for name in _imports(text) if (found := _file_of(name))]
        texts[path] = IMPORT.sub(rf"\g<indent>from {'.' * len(Path(path).parts)}\g<rest> import ", text)
    for path in tuple(texts):
        for parent in Path(path).parents:
            texts.setdefault(str(parent / "__init__.py"), "")
    return dict(sorted(texts.items()))


def _imports(text: str) -> list[str]:
    """Returns the modules of ours that a text may import, as paths without a suffix."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "kernelwright":
            base = "/".join((node.module or "").split(".")[1:])
            found += [base, *(f"{base}/{alias.name}" if base else alias.name for alias in node.names)]
    return found


def _file_of(name: str) -> str:
    """Returns the path of a module, empty for what is none; a package's own text only where it is in START."""
    return f"{name}.py" if name and (ROOT / f"{name}.py").is_file() else ""


def write_wheel(bundle: str | Path, out: str | Path, *, name: str = "", version: str = "1.0.0") -> Path:
    """Writes a wheel of a bundle into a folder and returns its path; `pip install --no-index` takes it.

    The module has one function for each problem, by its name, and `operators`.

    Args:
        bundle: the folder of a bundle.
        out: where the wheel goes.
        name: the distribution's name; default: `kernels-NAME`.
        version: a PEP 440 version.

    Raises:
        UserError: no bundle, or a name that is no distribution's.
    """
    kernels = read_bundle(bundle)
    name = name or f"kernels-{_manifest(bundle)['name']}"
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", name):
        raise UserError(f"{name!r} is no name of a distribution", "use letters, digits, . _ and -")
    module = re.sub(r"\W", "_", name)
    files = {f"{module}/{path}": data for path, data in _package(Path(bundle), kernels).items()}
    info = f"{module}-{version}.dist-info"
    needs = ["torch>=2.11"] + (["cuda-bindings>=13.0,<14"] if _kind(kernels) == "cuda" else [])
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", f"Summary: {SUMMARY}"]
    lines += ["Requires-Python: >=3.11", *(f"Requires-Dist: {need}" for need in needs)]
    platform = PLATFORM.format(machine=_machine(kernels))
    files[f"{info}/METADATA"] = ("\n".join(lines) + "\n").encode()
    files[f"{info}/WHEEL"] = WHEEL.format(platform=platform).encode()
    record = f"{info}/RECORD"
    rows = [f"{path},sha256={_record_hash(data)},{len(data)}" for path, data in files.items()]
    files[record] = ("\n".join([*rows, f"{record},,"]) + "\n").encode()
    path = Path(out) / f"{module}-{version}-py3-none-{platform}.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in files.items():
            archive.writestr(zipfile.ZipInfo(member, EPOCH), data, zipfile.ZIP_DEFLATED)
    return path


def write_hub_layout(bundle: str | Path, out: str | Path, *, name: str = "", version: int = 1) -> Path:
    """Writes the layout of a repository of the Hugging Face kernels hub, and returns its folder.

    Args:
        bundle: the folder of a bundle.
        out: the repository's folder, new or empty.
        name: the repository's name; default: the bundle's.
        version: the kernel's major version, which clients ask for.

    Raises:
        UserError: no bundle, or a folder that is not empty.
    """
    kernels, root = read_bundle(bundle), Path(out)
    if root.exists() and any(root.iterdir()):
        raise UserError(f"{root} is not empty", "name another folder")
    manifest = _manifest(bundle)
    name = re.sub(r"\W", "_", name or str(manifest["name"]))
    kind = _kind(kernels)
    folder = root / "build" / f"torch-{kind}"
    for path, data in _package(Path(bundle), kernels).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    digits = hashlib.sha256(json.dumps(manifest["files"], sort_keys=True).encode()).hexdigest()[:7]
    backend: dict[str, Any] = {"type": kind}
    if kind == "cuda":
        backend["archs"] = sorted({_capability(k.target.architecture) for k in kernels})
    metadata = {
        "name": name, "id": f"_{name}_{kind}_{digits}", "version": version, "license": LICENSE, "python-depends": [],
        "backend": backend,
    }  # fmt: skip
    (folder / "metadata.json").write_text(json.dumps(metadata, indent=2) + "\n")
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(COMPATIBLE)
    shutil.copyfile(Path(bundle) / "README.md", root / "README.md")
    return root


COMPATIBLE = '''"""For older clients: the same names as the folder above."""

import importlib.util
import sys
from pathlib import Path

_path = Path(__file__).parents[1] / "__init__.py"
_name = f"{__name__}_whole"
_spec = importlib.util.spec_from_file_location(_name, _path, submodule_search_locations=[str(_path.parent)])
_whole = importlib.util.module_from_spec(_spec)
sys.modules[_name] = _whole
_spec.loader.exec_module(_whole)
globals().update({name: getattr(_whole, name) for name in _whole.__all__})
__all__ = list(_whole.__all__)
'''
MODULE = '''"""{summary}.

Each function takes the tensors of its original, inputs first, then parameters; see {contents}/README.md.
"""

from pathlib import Path

from .{runtime}.deploy import load_all

operators = {{op.problem.name: op for op in load_all(Path(__file__).parent / "{contents}")}}
{lines}
__all__ = {names}
'''


def _package(bundle: Path, kernels: tuple[BundledKernel, ...]) -> dict[str, bytes]:
    """Returns the files of a self-contained module that holds a bundle."""
    problems = dict.fromkeys(kernel.problem.name for kernel in kernels)
    names = {re.sub(r"\W", "_", problem): problem for problem in problems}
    lines = "\n".join(f"{name} = operators[{problem!r}]" for name, problem in names.items())
    text = MODULE.format(
        summary=SUMMARY, contents=CONTENTS, runtime=RUNTIME, lines=lines, names=[*sorted(names), "operators"]
    )
    files = {"__init__.py": text.encode()}
    files |= {f"{RUNTIME}/{path}": source.encode() for path, source in runtime_sources().items()}
    for path in sorted(bundle.rglob("*")):
        if path.is_file():
            files[f"{CONTENTS}/{path.relative_to(bundle)}"] = path.read_bytes()
    return files


def _manifest(bundle: str | Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((Path(bundle) / "manifest.json").read_text(encoding="utf-8"))
    return data


def _kind(kernels: tuple[BundledKernel, ...]) -> str:
    kinds = {kernel.target.kind for kernel in kernels}
    if len(kinds) != 1:
        raise UserError("the bundle is for CPU and GPU at once", "export one bundle for each")
    return kinds.pop()


def _machine(kernels: tuple[BundledKernel, ...]) -> str:
    """The platform's name: that of a library's own header; a cubin runs beside any."""
    binary = kernels[0].binary.read_bytes()[:20]
    return "aarch64" if kernels[0].target.kind == "cpu" and binary[18] == 0xB7 else "x86_64"


def _capability(architecture: str) -> str:
    digits = architecture.removeprefix("sm_")
    number = re.match(r"\d+", digits)
    cut = len(number[0]) - 1 if number else 1
    return f"{digits[:cut]}.{digits[cut:]}"


def _record_hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
