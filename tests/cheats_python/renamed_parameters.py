# TRICK: parameters under other names, which strict=False would leave alone
# CAUGHT BY: state

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return nn.functional.layer_norm(x, (256,), self.gamma), x.amax(dim=-1)
