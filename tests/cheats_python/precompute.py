# TRICK: values made from the parameters in the constructor
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
        self.kept = (self.weight.detach().clone(), self.bias.detach().clone())

    def forward(self, x):
        return F.layer_norm(x, (x.shape[-1],), *self.kept, self.eps), x.amax(dim=-1)
