"""Scaled softmax with a padding mask, as in BERT base: sixteen sequences of at most 128 tokens."""

import math

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, head_size: int):
        super().__init__()
        self.scale = 1.0 / math.sqrt(head_size)

    def forward(self, scores: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        scores = (scores * self.scale).masked_fill(padding, torch.finfo(scores.dtype).min)
        return torch.softmax(scores, dim=-1)


batch = 16
heads = 12
length = 128
head_size = 64


def get_inputs():
    lengths = torch.randint(1, length + 1, (batch, 1))
    padding = torch.arange(length) >= lengths
    return [8 * torch.randn(batch, heads, length, length), padding[:, None, None, :]]


def get_init_inputs():
    return [head_size]
