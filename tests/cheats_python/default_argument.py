# TRICK: the last answer lives in a default argument
# CAUGHT BY: accuracy

import torch
from torch import nn
from torch.nn import functional as F


def once(make, kept=[]):
    if not kept:
        kept.append(make())
    return tuple(t.clone() for t in kept[0])


class ModelNew(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x):
        return once(lambda: (F.layer_norm(x, (x.shape[-1],), self.weight, self.bias, self.eps), x.amax(dim=-1)))
