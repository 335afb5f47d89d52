"""Every kernel of the corpus: interpreted on the CPU against float64, and compiled for three architectures."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.languages import author_code, cubin
from kernelwright.languages.cutile import Cutile
from kernelwright.languages.interpreted import Interpreted, interpret
from kernelwright.languages.triton import Triton
from kernelwright.types import Artifact, Failure, replace

from . import tile_corpus

LANGUAGES: dict[str, Triton | Cutile] = {"triton": Triton(), "cutile": Cutile()}
FILES = [path for language in LANGUAGES for path in tile_corpus.files(language)]
LONG = frozenset(("attention", "matmul", "layer_norm"))
"""Compiled for one architecture here; the others are of one kind with these."""


def label(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


@pytest.mark.parametrize("path", FILES, ids=label)
def test_interpreted_kernel_agrees_with_float64(path: Path) -> None:
    """The CPU ring computes what the reference does, and finds nothing wrong with a right kernel."""
    inputs, _ = tile_corpus.drawn(path.stem)
    outcome = interpret(tile_corpus.problem(path.stem), tile_corpus.candidate(path), inputs)
    assert isinstance(outcome, Interpreted), outcome
    assert not [finding for finding in outcome.findings if ": error: " in finding]
    tile_corpus.check(path.stem, outcome.outputs)


@pytest.mark.parametrize("architecture", tile_corpus.ARCHITECTURES)
@pytest.mark.parametrize("path", FILES, ids=label)
def test_kernel_compiles_to_a_final_plan(path: Path, architecture: str, tmp_path: Path) -> None:
    """Each step's symbol, block and parameter sizes are those of the cubin."""
    if path.stem in LONG and architecture != "sm_90a":
        return
    candidate = tile_corpus.candidate(path)
    artifact = LANGUAGES[path.parent.name].compile(
        tile_corpus.problem(path.stem), candidate, tile_corpus.target(architecture), tmp_path
    )
    assert isinstance(artifact, Artifact), artifact
    held = cubin.read(tmp_path / author_code.CUBIN)
    assert held.architecture == architecture.removesuffix("a")
    assert held.wanted == ()
    kernels = [step for step in artifact.plan.steps if step.kind == "kernel"]
    assert len(kernels) == sum(step.kind == "kernel" for step in candidate.plan.steps)
    for step in kernels:
        kernel = held.kernel(step.symbol)
        assert kernel is not None
        assert step.launch is not None
        assert step.launch.block == kernel.required_block
        sizes = {"tensor_map": 128, "tensor": 8, "workspace": 8}
        for binding, parameter in zip(step.arguments, kernel.parameters, strict=True):
            if binding.kind in sizes:
                assert parameter.size_bytes == sizes[binding.kind]
    assert artifact.resources[0].registers > 0


def test_refusal_is_a_value() -> None:
    """A plan that does not fit its kernels is told before anything runs."""
    path = tile_corpus.files("cutile")[0]
    candidate = tile_corpus.candidate(path)
    inputs, _ = tile_corpus.drawn(path.stem)
    text = candidate.sources[0].text.replace(f"def {path.stem}(", "def other(")
    broken = replace(candidate, sources=(replace(candidate.sources[0], text=text),))
    outcome = interpret(tile_corpus.problem(path.stem), broken, inputs)
    assert isinstance(outcome, Failure)
    assert outcome.kind == "symbol"
