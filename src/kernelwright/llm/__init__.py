"""Language models as authors: providers behind one small protocol, prompts as files, and what is in a reply.

A model proposes text and nothing else: it never sees the judge, the store or the device.
Not here: which prompt is due (search), storing, spending and judging (run).
"""

from __future__ import annotations

from pathlib import Path

from kernelwright.llm.command import Command
from kernelwright.llm.faults import Fault, NoKey, OutOfReach
from kernelwright.llm.local import PREFIX, Local
from kernelwright.llm.naming import Model, remote
from kernelwright.llm.pool import Pool
from kernelwright.llm.recorded import Recorded, recorded

__all__ = ["Command", "Fault", "Local", "Model", "NoKey", "OutOfReach", "Pool", "Recorded", "model_of", "recorded"]

REPLAY = "replay/"


def model_of(name: str) -> Model:
    """Returns the model that a --model name stands for.

    Raises:
        UserError: for a name that stands for none, or one whose key is not in the environment.
    """
    if name.startswith(PREFIX):
        return Local(Path(name.removeprefix(PREFIX)))
    return recorded(name) if name.startswith(REPLAY) else remote(name)
