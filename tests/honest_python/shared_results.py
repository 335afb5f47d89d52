# LOOKS: results lie in memory that other processes could map

import mmap

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
        y = torch.frombuffer(mmap.mmap(-1, 4 * x.numel()), dtype=torch.float32).view(x.shape)
        y.copy_(F.layer_norm(x, (x.shape[-1],), self.weight, self.bias, self.eps))
        return y, x.amax(dim=-1)
