"""Rotate-half rotary embedding of queries and keys in Llama 3 8B: 32 and 8 heads of size 128, 512 tokens."""

import torch
import torch.nn as nn


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


class Model(nn.Module):
    def forward(
        self, q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return (q * cos) + (rotate_half(q) * sin), (k * cos) + (rotate_half(k) * sin)


batch = 1
query_heads = 32
key_heads = 8
length = 512
head_size = 128
theta = 500000.0


def get_inputs():
    frequencies = theta ** (-torch.arange(0, head_size, 2).float() / head_size)
    angles = torch.outer(torch.arange(length).float(), frequencies)
    angles = torch.cat((angles, angles), dim=-1)
    return [
        torch.randn(batch, query_heads, length, head_size),
        torch.randn(batch, key_heads, length, head_size),
        angles.cos(),
        angles.sin(),
    ]


def get_init_inputs():
    return []
