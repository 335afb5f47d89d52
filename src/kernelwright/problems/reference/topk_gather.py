"""Query selection of RT-DETR: the 300 best of 8400 proposals by class score, and their boxes."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, queries: int):
        super().__init__()
        self.queries = queries

    def forward(self, logits: torch.Tensor, boxes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores, index = torch.topk(logits.max(dim=-1).values, self.queries, dim=1)
        return scores, boxes.gather(1, index.unsqueeze(-1).expand(-1, -1, boxes.shape[-1]))


batch = 4
proposals = 8400
classes = 80
queries = 300


def get_inputs():
    return [torch.randn(batch, proposals, classes), torch.rand(batch, proposals, 4)]


def get_init_inputs():
    return [queries]
