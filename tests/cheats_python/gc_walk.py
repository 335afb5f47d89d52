# TRICK: looks for the expected answer among all objects
# CAUGHT BY: accuracy

import gc

import torch
from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x):
        for held in gc.get_objects():
            if type(held) is torch.Tensor and held.shape == x.shape and held is not x and held.dtype == torch.float64:
                return held.float(), x.amax(dim=-1)
        return torch.zeros_like(x), x.amax(dim=-1)
