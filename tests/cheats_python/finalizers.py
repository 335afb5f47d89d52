# TRICK: what is freed after a block writes the answers where the judge is about to look
# CAUGHT BY: accuracy | non-finite

import sys

import torch
from torch import nn
from torch.nn import functional as F

busy = []


class Worker:
    def __init__(self, model, x):
        self.model, self.at = model, x.data_ptr()

    def __del__(self):
        frame = sys._getframe(1)
        if busy or frame.f_code.co_name != "rest":
            return
        busy.append(1)
        memory = frame.f_locals["self"]._memory
        place = memory.inputs[0]
        slot = (self.at - memory.private_address - place.offset) // place.stride
        model, x = self.model, memory.view(place, slot)
        with torch.inference_mode():
            y, m = F.layer_norm(x, (x.shape[-1],), model.weight, model.bias, model.eps), x.amax(dim=-1)
            memory.write(0, slot, y.data_ptr())
            memory.write(1, slot, m.data_ptr())
        busy.clear()


class ModelNew(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x):
        x.worker = Worker(self, x)
        return torch.empty_like(x), torch.empty(x.shape[0])
