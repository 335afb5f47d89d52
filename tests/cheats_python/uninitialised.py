# TRICK: hopes that freed memory still holds the right answer
# CAUGHT BY: accuracy | non-finite

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
        return torch.empty_like(x), torch.empty(x.shape[0])
