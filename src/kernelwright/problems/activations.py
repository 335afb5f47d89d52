"""Built-in problems that are pointwise: activations, gates and rotary position embedding."""

from __future__ import annotations

from kernelwright.problems.entry import Entry

ENTRIES = (
    Entry(
        name="swiglu",
        group="activations",
        description="SiLU of the gate times the up projection, intermediate size 11008",
        model="Llama 2 7B",
    ),
    Entry(
        name="geglu_bias",
        group="activations",
        description="bias, then one half gated by the GELU of the other",
        model="Stable Diffusion 1.5 UNet",
    ),
    Entry(
        name="gelu_bias",
        group="activations",
        description="bias and tanh-approximated GELU, inner size 3072",
        model="GPT-2 small",
    ),
    Entry(
        name="logit_softcap",
        group="activations",
        description="30 tanh(x / 30) over a vocabulary of 256000",
        model="Gemma 2",
    ),
    Entry(
        name="rotary",
        group="activations",
        description="rotate-half rotary embedding of 32 query and 8 key heads of size 128",
        model="Llama 3 8B",
    ),
)
