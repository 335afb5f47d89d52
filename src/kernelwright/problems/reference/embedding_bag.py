"""Sum-pooled lookup of a categorical feature in DLRM: 100000 rows of size 64, 8192 bags of 32."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, rows: int, size: int):
        super().__init__()
        self.table = nn.EmbeddingBag(rows, size, mode="sum")

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        return self.table(indices)


rows = 100000
size = 64
bags = 8192
per_bag = 32


def get_inputs():
    return [torch.randint(0, rows, (bags, per_bag))]


def get_init_inputs():
    return [rows, size]
