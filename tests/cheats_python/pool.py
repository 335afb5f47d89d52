# TRICK: a pool of threads that works on while others are timed
# CAUGHT BY: threads

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps = eps
        self.pool = ThreadPoolExecutor(2)

    def forward(self, x):
        return self.pool.submit(
            lambda: (F.layer_norm(x, (x.shape[-1],), self.weight, self.bias, self.eps), x.amax(dim=-1))
        ).result()
