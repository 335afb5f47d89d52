# TRICK: a result with a graph behind it
# CAUGHT BY: structure
# SEEN: inside

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
        with torch.inference_mode(False), torch.enable_grad():
            w = self.weight.detach().clone().requires_grad_()
            return F.layer_norm(x, (x.shape[-1],), w, self.bias, self.eps), x.amax(dim=-1)
