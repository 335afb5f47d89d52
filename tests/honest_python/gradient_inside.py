# LOOKS: uses autograd inside, which inference_mode refuses

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
        with torch.enable_grad():
            z = x.clone().requires_grad_()
            (g,) = torch.autograd.grad((z * z).sum() / 2, z)
        return F.layer_norm(g, (x.shape[-1],), self.weight, self.bias, self.eps), g.amax(dim=-1)
