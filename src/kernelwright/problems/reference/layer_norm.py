"""LayerNorm of BERT base: hidden size 768, eight sequences of 512 tokens."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, hidden_size: int):
        super().__init__()
        self.norm = nn.LayerNorm(hidden_size, eps=1e-12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


batch = 8
length = 512
hidden_size = 768


def get_inputs():
    return [torch.randn(batch, length, hidden_size)]


def get_init_inputs():
    return [hidden_size]
