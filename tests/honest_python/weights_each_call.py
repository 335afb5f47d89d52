# LOOKS: repacks its parameters, but in every call

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
        w, b = self.weight.double(), self.bias.double()
        return F.layer_norm(x.double(), (x.shape[-1],), w, b, self.eps).float(), x.amax(dim=-1)
