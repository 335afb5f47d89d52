"""The language `cute`: CuTe DSL, an optional extra for its licence; known by name, not built yet.

Not here: anything that builds. CuTe DSL 4.8 compiles without a device, but its tensor maps are made by host code of its
own that no launch plan can express (docs/decisions); until that is solved its candidates are refused by name.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from kernelwright.errors import MissingTool
from kernelwright.types import Artifact, Candidate, Failure, Problem, Target

PACKAGE = "nvidia-cutlass-dsl"
NO_CUTE = 'install it (NVIDIA licence): pip install "nvidia-cutlass-dsl[cu13]>=4.8"'


class Cute:
    """Refuses CuTe DSL candidates with the reason.

    **Covers**: a message that says what is missing.
    **Does not cover**: building.
    """

    name = "cute"
    runs_author_code = True
    makes_plan = True

    def key(self, problem: Problem, candidate: Candidate, target: Target) -> str | Failure:
        """Returns why there is no build.

        Raises:
            MissingTool: when CuTe DSL is not installed.
        """
        del problem, candidate, target
        try:
            metadata.version(PACKAGE)
        except metadata.PackageNotFoundError:
            raise MissingTool(f"the package {PACKAGE!r} is not installed", NO_CUTE) from None
        message = "CuTe DSL candidates cannot be built yet; write the kernel in cuda, triton or cutile"
        return Failure(stage="build", kind="unsupported", message=message)

    def compile(self, problem: Problem, candidate: Candidate, target: Target, folder: Path) -> Artifact | Failure:
        """Returns why there is no build."""
        del folder
        refusal = self.key(problem, candidate, target)
        assert isinstance(refusal, Failure)  # key() never returns a digest
        return refusal
