# TRICK: parameters repacked at the first call and kept
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
        self.kept = None

    def forward(self, x):
        if self.kept is None:
            self.kept = self.weight.detach().double()
        y = F.layer_norm(x.double(), (x.shape[-1],), self.kept, self.bias.double(), self.eps)
        return y.float(), x.amax(dim=-1)
