"""A small causal transformer, for words that are few: about a hundred thousand parameters, at home on a CPU.

Pre-normalised, with learnt positions, SwiGLU and a tied head; after nanoGPT and Llama in miniature.
Not here: what its words are (vocabulary.py) and which may follow which (grammar.py).
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

LONGEST = 256


class Block(nn.Module):
    """Attention, then a gated layer, each added to what came in."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
        self.project = nn.Linear(width, 3 * width, bias=False)
        self.join = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Takes and gives [batch, time, width]."""
        batch, time, width = x.shape
        split = self.project(self.first(x)).view(batch, time, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.join(mixed.transpose(1, 2).reshape(batch, time, width))
        one, other = self.gate(self.second(x)).chunk(2, dim=-1)
        return x + torch.as_tensor(self.down(functional.silu(one) * other))


class Transformer(nn.Module):
    """Words in, logits of the next word out.

    Args:
        words: in the vocabulary.
        width: of a word's vector.
        layers: blocks.
        heads: of each.
        longest: words of the longest text.
    """

    def __init__(self, words: int, *, width: int = 48, layers: int = 2, heads: int = 4, longest: int = LONGEST) -> None:
        super().__init__()
        self.shape = {"width": width, "layers": layers, "heads": heads, "longest": longest}
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(longest, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.last = nn.RMSNorm(width)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.05)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Returns logits [batch, time, words] for ids int64 [batch, time]; what follows a place cannot change it."""
        x = self.words(ids) + self.places.weight[: ids.shape[1]]
        return functional.linear(self.last(self.blocks(x)), self.words.weight)
