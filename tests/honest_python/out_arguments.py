# LOOKS: results through out=

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
        y, m = torch.empty_like(x), x.new_empty(x.shape[0])
        torch.amax(x, dim=-1, out=m)
        y.copy_(F.layer_norm(x, (x.shape[-1],), self.weight, self.bias, self.eps))
        return y, m
