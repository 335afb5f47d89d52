# TRICK: draws the inputs that a known seed gives and answers those
# CAUGHT BY: accuracy

import torch
from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps = eps
        torch.manual_seed(42)
        self.guess = torch.randn(64, width)

    def forward(self, x):
        x = self.guess
        return F.layer_norm(x, (x.shape[-1],), self.weight, self.bias, self.eps), x.amax(dim=-1)
