"""GroupNorm and SiLU of a ResNet block in the Stable Diffusion 1.5 UNet: 320 channels in 32 groups, 64x64 latents."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, groups: int, channels: int):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels, eps=1e-5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.norm(x))


batch = 2
groups = 32
channels = 320
height = width = 64


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [groups, channels]
