# TRICK: returns at once; a thread fills the results later
# CAUGHT BY: threads

import threading
import time

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
        y, m = torch.empty_like(x), torch.empty(x.shape[0])

        def fill():
            time.sleep(60.0)  # so long that the judge never comes too late to see it
            with torch.inference_mode():
                y.copy_(F.layer_norm(x, (x.shape[-1],), self.weight, self.bias, self.eps))
                m.copy_(x.amax(dim=-1))

        threading.Thread(target=fill, daemon=True).start()
        return y, m
