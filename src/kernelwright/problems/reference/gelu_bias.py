"""Bias and tanh-approximated GELU of the GPT-2 small feed-forward block: 1024 tokens, inner size 3072."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, inner: int):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(inner))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x + self.bias, approximate="tanh")


tokens = 1024
inner = 3072


def get_inputs():
    return [torch.randn(tokens, inner)]


def get_init_inputs():
    return [inner]
