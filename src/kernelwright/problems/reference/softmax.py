"""Softmax over attention scores of BERT large: 16 heads, 512 tokens."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        return torch.softmax(scores, dim=-1)


batch = 1
heads = 16
length = 512


def get_inputs():
    return [4 * torch.randn(batch, heads, length, length)]


def get_init_inputs():
    return []
