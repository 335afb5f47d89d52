"""RMSNorm as in Llama 3 8B: hidden size 4096, 512 tokens."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, hidden_size: int, eps: float = 1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.eps = eps

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.eps)
        return self.weight * hidden_states


tokens = 512
hidden_size = 4096


def get_inputs():
    return [torch.randn(tokens, hidden_size)]


def get_init_inputs():
    return [hidden_size]
