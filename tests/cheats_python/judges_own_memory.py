# TRICK: results lie in memory of the judge's that is mapped once more, where nobody compares addresses
# CAUGHT BY: structure

import mmap
import os
import sys

import torch
from torch import nn
from torch.nn import functional as F

mapped = []


def place(shape, offset):
    if not mapped:
        descriptor = int(sys.argv[4])
        mapped.append(mmap.mmap(descriptor, os.fstat(descriptor).st_size))
    return torch.frombuffer(mapped[0], dtype=torch.float32, count=shape.numel(), offset=offset).view(shape)


class ModelNew(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x):
        y, m = place(x.shape, 4096), torch.empty(x.shape[0])
        y.copy_(F.layer_norm(x, (x.shape[-1],), self.weight, self.bias, self.eps))
        m.copy_(x.amax(dim=-1))
        return y, m
