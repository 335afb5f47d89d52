# LOOKS: threads that have ended before it returns

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

    def forward(self, x):
        with ThreadPoolExecutor(2) as pool:
            m = pool.submit(x.amax, -1)
            return F.layer_norm(x, (x.shape[-1],), self.weight, self.bias, self.eps), m.result()
