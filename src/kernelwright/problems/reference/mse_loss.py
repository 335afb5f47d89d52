"""Noise prediction loss of Stable Diffusion 1.5 training: mean squared error over 4x64x64 latents, batch of 128."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, predicted: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(predicted, noise)


batch = 128
channels = 4
height = width = 64


def get_inputs():
    return [torch.randn(batch, channels, height, width), torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return []
