"""Residual add and RMSNorm of Llama 3 8B: gives the normed states and the new residual."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, hidden_size: int, eps: float = 1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.eps = eps

    def forward(self, hidden_states: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        residual = residual + hidden_states
        variance = residual.pow(2).mean(-1, keepdim=True)
        normed = self.weight * (residual * torch.rsqrt(variance + self.eps))
        return normed, residual


tokens = 512
hidden_size = 4096


def get_inputs():
    return [torch.randn(tokens, hidden_size), torch.randn(tokens, hidden_size)]


def get_init_inputs():
    return [hidden_size]
