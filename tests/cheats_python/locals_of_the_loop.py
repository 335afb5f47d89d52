# TRICK: locals of the worker's own loop are exchanged, so that nothing looks any more and work is done before a command is read
# CAUGHT BY: timed outputs

import ctypes
import sys

import torch
from torch import nn
from torch.nn import functional as F

todo = []


def work():
    while todo:
        model, x, y, m = todo.pop()
        with torch.inference_mode():
            y.copy_(F.layer_norm(x, (x.shape[-1],), model.weight, model.bias, model.eps))
            m.copy_(x.amax(dim=-1))


def install():
    frame = sys._getframe()
    while frame.f_back is not None and "look" not in frame.f_code.co_varnames:
        frame = frame.f_back
    held = frame.f_locals
    if held.get("look") is nothing:
        return
    real = held["receive"]

    def receive(descriptor, **more):
        message = real(descriptor, **more)
        work()
        return message

    held["look"], held["receive"] = nothing, receive
    ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def nothing():
    return ""


class ModelNew(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x):
        y, m = torch.empty_like(x), torch.empty(x.shape[0])
        todo.append((self, x, y, m))
        install()
        return y, m
