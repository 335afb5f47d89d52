"""L2 normalisation of CLIP ViT-L/14 embeddings: 4096 images, projection size 768."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, embeddings: torch.Tensor) -> torch.Tensor:
        return F.normalize(embeddings, p=2.0, dim=-1)


images = 4096
projection = 768


def get_inputs():
    return [torch.randn(images, projection)]


def get_init_inputs():
    return []
