# LOOKS: works in place on a copy of its input

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x):
        y = x.clone()
        y -= x.mean(-1, keepdim=True)
        y *= torch.rsqrt(y.square().mean(-1, keepdim=True) + self.eps)
        return y.mul_(self.weight).add_(self.bias), x.amax(dim=-1)
