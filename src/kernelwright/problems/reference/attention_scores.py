"""Attention probabilities of GPT-2 small without dropout: queries times keys, scale, causal mask, softmax."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        length = q.size(-2)
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(q.size(-1)))
        causal = torch.ones(length, length, dtype=torch.bool).tril()
        return F.softmax(scores.masked_fill(~causal, float("-inf")), dim=-1)


batch = 1
heads = 12
length = 512
head_size = 64


def get_inputs():
    return [torch.randn(batch, heads, length, head_size), torch.randn(batch, heads, length, head_size)]


def get_init_inputs():
    return []
