# LOOKS: leaves torch for NumPy and comes back

import numpy as np
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x):
        a = x.numpy()
        mean = a.mean(-1, keepdims=True, dtype=np.float64)
        var = a.var(-1, keepdims=True, dtype=np.float64)
        with np.errstate(all="ignore"):
            y = (a - mean) / np.sqrt(var + self.eps) * self.weight.numpy() + self.bias.numpy()
            m = a.max(-1)
        return torch.from_numpy(y.astype(np.float32)), torch.from_numpy(m)
