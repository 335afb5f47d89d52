"""Biased GEGLU of the Stable Diffusion 1.5 transformer block: 1024 tokens, 640 channels, inner size 2560."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, inner: int):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(2 * inner))

    def forward(self, projected: torch.Tensor) -> torch.Tensor:
        hidden, gate = (projected + self.bias).chunk(2, dim=-1)
        return hidden * F.gelu(gate)


tokens = 1024
inner = 2560


def get_inputs():
    return [torch.randn(tokens, 2 * inner)]


def get_init_inputs():
    return [inner]
