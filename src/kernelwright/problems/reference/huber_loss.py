"""Huber loss of the box regression in SSD300: 8732 default boxes of four offsets, batch of 64."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, predicted: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.huber_loss(predicted, target, delta=1.0)


batch = 64
boxes = 8732


def get_inputs():
    return [torch.randn(batch, boxes, 4), torch.randn(batch, boxes, 4)]


def get_init_inputs():
    return []
