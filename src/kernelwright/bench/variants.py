"""Copies of tasks that are functions of their inputs where the published file is not one.

In training mode a batch norm uses the batch's own statistics and, beside its answer, moves its running ones: the copy
leaves these out. Tensors that a module keeps as plain attributes, drawn anew each time it is made, become buffers. The
outputs are the same. What still draws random numbers is taken in evaluation mode (running.py).
Not here: smaller copies (shrinking.py).
"""

from __future__ import annotations

from pathlib import Path

WANTED = ("running statistics", "its attribute")
"""What a refusal says where a copy may help."""
ENDING = """

# Running statistics are left out, tensors among the attributes are buffers: a function of its inputs and its state.
import torch as _torch

_made = Model.__init__


def _as_a_function(self, *given, **named):
    _made(self, *given, **named)
    for part in self.modules():
        if isinstance(part, _torch.nn.modules.batchnorm._NormBase) and part.track_running_stats:
            part.running_mean = part.running_var = part.num_batches_tracked = None
            part.track_running_stats = False
        for name, item in list(vars(part).items()):
            if isinstance(item, _torch.Tensor):
                delattr(part, name)
                part.register_buffer(name, item)


Model.__init__ = _as_a_function
"""


def as_a_function(source: Path, folder: Path) -> Path:
    """Writes the copy and returns where it is."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / source.name
    path.write_text(source.read_text(encoding="utf-8") + ENDING, encoding="utf-8")
    return path
