"""The networks of benchmarks/models.py, built from PyTorch's own modules; sizes real ones, or reduced for tests.

The LSTM is written out step by step: torch.compile leaves nn.LSTM itself to torch (a graph break), so that no backend
sees it.
"""
# ruff: noqa: D102  (forward of a module)
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

Built = tuple[nn.Module, tuple[torch.Tensor, ...]]


class RMSNorm(nn.Module):
    """Llama's normalisation, in float32 where less comes in."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * wide.to(x.dtype)


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding of (batch, heads, places, width)."""
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-right, left), dim=-1) * sin


class LlamaBlock(nn.Module):
    """A decoder block: grouped-query attention with rotary embedding, SwiGLU."""

    cos: torch.Tensor
    sin: torch.Tensor

    def __init__(self, width: int, heads: int, groups: int, inner: int, places: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, groups * self.size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)
        rates = 10000.0 ** (-torch.arange(0, self.size, 2) / self.size)
        angles = torch.outer(torch.arange(places).float(), rates).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, places, width = x.shape
        y = self.norm1(x)
        q, k, v = (layer(y).view(batch, places, -1, self.size).transpose(1, 2) for layer in (self.q, self.k, self.v))
        q, k = turned(q, self.cos, self.sin), turned(k, self.cos, self.sin)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(seen.transpose(1, 2).reshape(batch, places, width))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class ViTBlock(nn.Module):
    """An encoder block before whose parts layers are normalised, attention spelled out."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, places, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, places, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        seen = ((q @ k.transpose(-2, -1)) * (width // self.heads) ** -0.5).softmax(-1) @ v
        x = x + self.proj(seen.transpose(1, 2).reshape(batch, places, width))
        return x + self.mlp(self.norm2(x))


class Bottleneck(nn.Module):
    """ResNet's block, with its changes in place."""

    def __init__(self, given: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(given, width, 1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn1, self.bn2, self.bn3 = nn.BatchNorm2d(width), nn.BatchNorm2d(width), nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.down: nn.Module | None = None
        if stride > 1 or given != 4 * width:
            self.down = nn.Sequential(nn.Conv2d(given, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(y)))))
        y += x if self.down is None else self.down(x)
        return self.relu(y)


class ResNet50(nn.Module):
    """The whole network."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )  # fmt: skip
        blocks, given = [], width
        for stage, count in enumerate((3, 4, 6, 3)):
            for number in range(count):
                blocks.append(Bottleneck(given, width << stage, 2 if stage and not number else 1))
                given = 4 * (width << stage)
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(given, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class LSTM(nn.Module):
    """One layer over a sequence, step by step, time first, then a normalised projection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.given, self.kept = nn.Linear(width, 4 * width), nn.Linear(width, 4 * width)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor) -> torch.Tensor:
        steps, made = self.given(x), []
        for step in range(len(x)):
            i, f, g, o = (steps[step] + self.kept(hidden)).chunk(4, dim=-1)
            cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            hidden = torch.sigmoid(o) * torch.tanh(cell)
            made.append(hidden)
        return self.head(self.norm(torch.stack(made)))


class UNetBlock(nn.Module):
    """A residual block of a diffusion U-Net, with its embedding of time."""

    def __init__(self, given: int, width: int, time: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(32, given), nn.GroupNorm(32, width)
        self.conv1, self.conv2 = nn.Conv2d(given, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.time, self.skip = nn.Linear(time, width), nn.Conv2d(given, width, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(y)))


def llama(small: bool) -> Built:
    """A block of Llama 3 8B's sizes over 2,048 places."""
    width, heads, groups, inner, places = (256, 4, 2, 512, 64) if small else (4096, 32, 8, 14336, 2048)
    return LlamaBlock(width, heads, groups, inner, places), (torch.randn(1, places, width),)


def vit(small: bool) -> Built:
    """A block of ViT-L/16 over 16 pictures."""
    width, heads, places, batch = (128, 4, 65, 2) if small else (1024, 16, 197, 16)
    return ViTBlock(width, heads), (torch.randn(batch, places, width),)


def resnet50(small: bool) -> Built:
    """ResNet-50 over 16 pictures of 224 x 224."""
    width, size, batch = (16, 64, 2) if small else (64, 224, 16)
    return ResNet50(width), (torch.randn(batch, 3, size, size),)


def lstm(small: bool) -> Built:
    """A layer of 1,024 over 32 steps of 64 sequences."""
    width, steps, batch = (64, 6, 8) if small else (1024, 32, 64)
    return LSTM(width), (torch.randn(steps, batch, width), torch.zeros(batch, width), torch.zeros(batch, width))


def unet(small: bool) -> Built:
    """A block of Stable Diffusion's sizes, 64 x 64 places."""
    given, width, time, size, batch = (64, 64, 128, 16, 2) if small else (320, 640, 1280, 64, 4)
    return UNetBlock(given, width, time), (torch.randn(batch, given, size, size), torch.randn(batch, time))


NETWORKS: dict[str, Callable[[bool], Built]] = {
    "llama": llama, "vit": vit, "resnet50": resnet50, "lstm": lstm, "unet": unet,
}  # fmt: skip
