# TRICK: computes in bfloat16
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

    def forward(self, x):
        y = F.layer_norm(x.bfloat16(), (x.shape[-1],), self.weight.bfloat16(), self.bias.bfloat16(), self.eps)
        return y.float(), x.amax(dim=-1)
