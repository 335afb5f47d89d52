# LOOKS: torch.compile

import torch
from torch import nn
from torch.nn import functional as F


@torch.compile
def norm(x, w, b, eps):
    return F.layer_norm(x, (x.shape[-1],), w, b, eps), x.amax(dim=-1)


class ModelNew(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x):
        return norm(x, self.weight, self.bias, self.eps)
