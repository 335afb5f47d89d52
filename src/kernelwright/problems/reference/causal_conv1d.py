"""Causal depthwise convolution and SiLU of a Mamba 130M block: inner size 1536, width 4, 1024 tokens."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, inner: int, width: int):
        super().__init__()
        self.conv = nn.Conv1d(inner, inner, kernel_size=width, groups=inner, padding=width - 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.conv(x)[..., : x.shape[-1]])


batch = 2
inner = 1536
width = 4
length = 1024


def get_inputs():
    return [torch.randn(batch, inner, length)]


def get_init_inputs():
    return [inner, width]
