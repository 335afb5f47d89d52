# TRICK: the harness's own clock is found and replaced
# CAUGHT BY: environment
# SEEN: inside

import sys

import torch
from torch import nn
from torch.nn import functional as F

engine = sys.modules["kernelwright.judge.witness.engine"]
engine._clock = lambda: 0


class ModelNew(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x):
        return F.layer_norm(x, (x.shape[-1],), self.weight, self.bias, self.eps), x.amax(dim=-1)
