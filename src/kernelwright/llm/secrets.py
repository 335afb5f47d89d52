"""Keeps keys out of everything that is stored or shown.

Providers repeat a wrong key in their error messages, agents print their environment, and a model can repeat what it
was told; so every text that comes from outside goes through `scrubbed` before anybody else sees it.
**Covers**: the value of every environment variable whose name says that it is a secret, and text of the shapes that
providers give their keys.
**Does not cover**: keys of other shapes in variables with innocent names, and keys that were taken apart.
"""

from __future__ import annotations

import re

from kernelwright import environment

REMOVED = "[key removed]"
SHAPES = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|ghp|gho|ghs|glpat|nvapi|pplx|r8|co)[-_](?:[A-Za-z0-9]+[-_])*[A-Za-z0-9_-]{16,}"
    r"|\bAIza[0-9A-Za-z_-]{30,}|\bya29\.[0-9A-Za-z_-]{20,}|\bAKIA[0-9A-Z]{16}\b"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"
    r"|(?i:(?<=bearer ))[A-Za-z0-9._~+/-]{16,}=*"
)


def scrubbed(text: str) -> str:
    """Returns the text with every key in it replaced by `[key removed]`."""
    for secret in environment.secrets():
        text = text.replace(secret, REMOVED)
    return SHAPES.sub(REMOVED, text)
