# TRICK: an audit hook, which Python calls in the middle of the checker's own work
# CAUGHT BY: accuracy | non-finite

import sys

import torch
from torch import nn
from torch.nn import functional as F

todo = []


def hook(event, arguments):
    if event != "object.__getattr__" or not todo:
        return
    while todo:
        model, x, y, m = todo.pop()
        with torch.inference_mode():
            y.copy_(F.layer_norm(x, (x.shape[-1],), model.weight, model.bias, model.eps))
            m.copy_(x.amax(dim=-1))


sys.addaudithook(hook)


class ModelNew(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x):
        y, m = torch.empty_like(x), torch.empty(x.shape[0])
        todo.append((self, x, y, m))
        return y, m
