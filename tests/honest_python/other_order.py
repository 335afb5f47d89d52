# LOOKS: sums in another order, in float64

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x):
        wide = x.double().flip(-1)
        mean = wide.mean(-1, keepdim=True)
        var = (wide - mean).square().mean(-1, keepdim=True)
        y = (x.double() - mean) * torch.rsqrt(var + self.eps) * self.weight.double() + self.bias.double()
        return y.float(), x.flip(-1).amax(dim=-1)
