# LOOKS: counts its calls and keeps the last input's address

import torch
from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps = eps
        self.calls, self.seen = 0, 0

    def forward(self, x):
        self.calls += 1
        self.seen = x.data_ptr()
        return F.layer_norm(x, (x.shape[-1],), self.weight, self.bias, self.eps), x.amax(dim=-1)
