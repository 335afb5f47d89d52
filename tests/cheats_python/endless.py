# TRICK: never comes back
# CAUGHT BY: timeout
# CALL DEADLINE: 4

import torch
from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps = eps
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        while self.calls > 1:
            pass
        return F.layer_norm(x, (x.shape[-1],), self.weight, self.bias, self.eps), x.amax(dim=-1)
