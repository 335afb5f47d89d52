"""What tokens cost: a small table that anybody can read and overrule.

Not here: what was spent (run/spending.py).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from kernelwright.errors import UserError
from kernelwright.values import value

TABLE = Path(__file__).with_name("prices.json")
MILLION = 1e6


@value
class Price:
    """US dollars for a million tokens."""

    input_usd: float
    output_usd: float

    def of(self, input_tokens: float, output_tokens: float) -> float:
        """Returns what so many tokens cost, in US dollars."""
        return (input_tokens * self.input_usd + output_tokens * self.output_usd) / MILLION


FREE = Price(input_usd=0.0, output_usd=0.0)


@functools.cache
def _table() -> dict[str, Price]:
    listed = json.loads(TABLE.read_text())["usd_per_million_tokens"]
    return {name: Price(input_usd=float(i), output_usd=float(o)) for name, (i, o) in listed.items()}


def price_of(model: str, given: Mapping[str, Price], *, local: bool) -> Price | None:
    """Returns a model's price: as given, else nothing for a local one, else the table's; None where nobody knows."""
    if model in given:
        return given[model]
    if local:
        return FREE
    names = [name for name in _table() if model.startswith(name)]
    return _table()[max(names, key=len)] if names else None


def parsed_prices(texts: Iterable[str]) -> dict[str, Price]:
    """Returns the prices of `NAME=IN,OUT` texts.

    Raises:
        UserError: for any other text.
    """
    found = {}
    for text in texts:
        name, _, numbers = text.rpartition("=")
        try:
            first, second = (float(number) for number in numbers.split(","))
            if not name or first < 0 or second < 0:
                raise ValueError
        except ValueError:
            raise UserError(f"{text!r} is no price", "write --price openai/gpt-5=1.25,10 (USD per million)") from None
        found[name] = Price(input_usd=first, output_usd=second)
    return found
