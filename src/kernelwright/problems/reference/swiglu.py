"""SwiGLU gate of Llama 2 7B: intermediate size 11008, 256 tokens."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return F.silu(gate) * up


tokens = 256
intermediate = 11008


def get_inputs():
    return [torch.randn(tokens, intermediate), torch.randn(tokens, intermediate)]


def get_init_inputs():
    return []
