# LOOKS: a scripted function

import torch
from torch import nn


@torch.jit.script
def norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, eps: float):
    return torch.layer_norm(x, [x.size(-1)], w, b, eps), x.amax(-1)


class ModelNew(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x):
        return norm(x, self.weight, self.bias, self.eps)
