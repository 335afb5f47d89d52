"""The capture worker: runs the user's reference, checks it, traces it.

Started by name (`python -m kernelwright.capture.worker`); the parent never imports this module.
torch is imported when the first request comes, so that the user is told what is being waited for.
"""

from __future__ import annotations

import importlib
from typing import Literal

from kernelwright.errors import MissingTool
from kernelwright.graph import Capture
from kernelwright.process import Emit, serve
from kernelwright.types import Problem

Form = Literal["whole", "checked", "outlined"]


def capture(emit: Emit, *, problem: Problem, form: Form = "whole") -> Capture:
    """Returns the completed problem and its graph, in one of the forms of `capture.load`.

    Raises:
        SourceError: when the reference cannot be used; the message names the fix.
        MissingTool: when torch cannot be imported.
    """
    emit("importing torch")
    try:
        completing = importlib.import_module("kernelwright.capture.completing")
        outlining = importlib.import_module("kernelwright.capture.outlining")
    except ModuleNotFoundError as error:
        raise MissingTool(f"{error.name} is not installed", f"pip install {error.name}") from error
    captured: Capture = (
        outlining.outline(problem, emit)
        if form == "outlined"
        else completing.complete(problem, emit, traced=form == "whole")
    )
    return captured


if __name__ == "__main__":
    serve({"capture": capture})
