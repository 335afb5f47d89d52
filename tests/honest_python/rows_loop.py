# LOOKS: a Python loop over rows

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
        rows = [F.layer_norm(row, (x.shape[-1],), self.weight, self.bias, self.eps) for row in x.split(16)]
        return torch.cat(rows), torch.cat([row.amax(dim=-1) for row in x.split(16)])
