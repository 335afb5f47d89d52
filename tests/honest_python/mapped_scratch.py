# LOOKS: maps memory of its own by mmap and uses it as scratch

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
        self.scratch = mmap.mmap(-1, 4 * 64 * width)

    def forward(self, x):
        kept = torch.frombuffer(self.scratch, dtype=torch.float32, count=x.numel()).view(x.shape)
        kept.copy_(x)
        return F.layer_norm(kept, (x.shape[-1],), self.weight, self.bias, self.eps), kept.amax(dim=-1)
