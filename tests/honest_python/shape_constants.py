# LOOKS: keeps what depends on shapes only

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps = eps
        self.kept = {}

    def forward(self, x):
        if x.shape not in self.kept:
            self.kept[x.shape] = x.new_full((x.shape[-1], 1), 1.0 / x.shape[-1], dtype=torch.float64)
        ones = self.kept[x.shape]
        wide = x.double()
        centred = wide - wide @ ones
        y = centred * torch.rsqrt(centred.square() @ ones + self.eps)
        return (y * self.weight + self.bias).float(), x.amax(dim=-1)
