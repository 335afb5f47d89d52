"""Adaptive LayerNorm of DiT-XL/2: normalise without weights, then shift and scale per image."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, hidden_size: int):
        super().__init__()
        self.norm = nn.LayerNorm(hidden_size, elementwise_affine=False, eps=1e-6)

    def forward(self, x: torch.Tensor, shift: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return self.norm(x) * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


batch = 8
patches = 256
hidden_size = 1152


def get_inputs():
    return [
        torch.randn(batch, patches, hidden_size),
        torch.randn(batch, hidden_size),
        torch.randn(batch, hidden_size),
    ]


def get_init_inputs():
    return [hidden_size]
