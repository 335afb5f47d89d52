# LOOKS: works in place on memory that it keeps between calls

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps = eps
        self.scratch = torch.empty(64, width)

    def forward(self, x):
        if self.scratch.device != x.device:
            self.scratch = torch.empty_like(x)
        self.scratch.copy_(x)
        self.scratch.sub_(x.mean(-1, keepdim=True))
        var = self.scratch.square().mean(-1, keepdim=True)
        self.scratch.mul_(torch.rsqrt(var + self.eps)).mul_(self.weight).add_(self.bias)
        return self.scratch.clone(), x.amax(dim=-1)
