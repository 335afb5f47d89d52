"""Runs a graph with torch in float64, to compare programs."""

from __future__ import annotations

from typing import Any

import torch

from kernelwright.graph import Arg, DtypeArg, Graph, Ref

SKIPPED = ("layout", "device", "pin_memory")


def run(graph: Graph, tensors: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """Returns the outputs of a graph; floats are float64 whatever the graph says."""
    known: dict[tuple[str, int], Any] = {(name, 0): tensor for name, tensor in tensors.items()}
    for constant in graph.constants:
        values = torch.tensor(constant.values).reshape(constant.shape)
        known[constant.name, 0] = values.double() if values.is_floating_point() else values

    def plain(item: Arg) -> Any:
        if isinstance(item, Ref):
            return known[item.name, item.index]
        if isinstance(item, tuple):
            return [plain(part) for part in item]
        if isinstance(item, DtypeArg):
            return torch.float64 if "float" in item.name else getattr(torch, item.name)
        return item

    for node in graph.nodes:
        space, name, overload = node.op.split(".")
        operator = getattr(getattr(getattr(torch.ops, space), name), overload)
        arguments = {key: plain(item) for key, item in node.arguments if key not in SKIPPED}
        if name == "view":
            result = arguments["self"].reshape(arguments["size"])
        else:
            result = operator(**arguments)
        for index, part in enumerate(result if isinstance(result, tuple | list) else (result,)):
            known[node.name, index] = part
    return [known[ref.name, ref.index] for ref in graph.outputs]
