"""Which of torch's operators a candidate's call uses: a label for the record, not a proof.

Loaded before any candidate like everything else here. Not here: any check; calling torch is legal for a
witnessed candidate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

MOST = 12
VIEWS = frozenset(
    [
        "view",
        "_unsafe_view",
        "reshape",
        "expand",
        "t",
        "transpose",
        "permute",
        "alias",
        "detach",
        "slice",
        "select",
        "unsqueeze",
        "squeeze",
        "as_strided",
    ]
)


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: dict[str, None] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # see judge/truth.py: it saves seconds of imports

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names[str(func.overloadpacket).removeprefix("aten.")] = None
        return func(*args, **(kwargs or {}))


def operators_of(call: Callable[..., Any], arguments: tuple[Any, ...]) -> list[str]:
    """Returns the operators' names in the order of their first use, views left out."""
    recorder = _Recorder()
    try:
        with torch.no_grad(), recorder:
            call(*arguments)
    except BaseException:  # noqa: BLE001  (compiled code may refuse to be watched: then there is no label)
        return []
    return [name for name in recorder.names if name not in VIEWS][:MOST]
