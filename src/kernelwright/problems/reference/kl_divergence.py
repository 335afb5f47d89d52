"""Distillation loss of DistilBERT: KL divergence of tempered student and teacher logits, vocabulary of 30522."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, temperature: float):
        super().__init__()
        self.temperature = temperature

    def forward(self, student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
        log_probabilities = F.log_softmax(student / self.temperature, dim=-1)
        targets = F.softmax(teacher / self.temperature, dim=-1)
        return F.kl_div(log_probabilities, targets, reduction="batchmean") * self.temperature**2


tokens = 48
vocabulary = 30522


def get_inputs():
    return [3 * torch.randn(tokens, vocabulary), 3 * torch.randn(tokens, vocabulary)]


def get_init_inputs():
    return [2.0]
