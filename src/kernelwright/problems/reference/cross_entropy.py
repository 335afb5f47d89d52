"""Cross entropy of next-token prediction in GPT-2: vocabulary of 50257, 64 tokens."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits, targets)


tokens = 64
vocabulary = 50257


def get_inputs():
    return [3 * torch.randn(tokens, vocabulary), torch.randint(0, vocabulary, (tokens,))]


def get_init_inputs():
    return []
