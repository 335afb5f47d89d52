"""Cumulative sum of probabilities for nucleus (top-p) sampling from Llama 2: 64 sequences, 32000 words."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, probabilities: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(probabilities, dim=-1)


sequences = 64
vocabulary = 32000


def get_inputs():
    return [torch.softmax(3 * torch.randn(sequences, vocabulary), dim=-1).sort(dim=-1, descending=True).values]


def get_init_inputs():
    return []
