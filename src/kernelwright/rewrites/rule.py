"""What a rule is: a name, where it may look, and a function that writes equal calls.

A rule must hold for real numbers; `finite` rules may differ where a value is infinite or NaN (a sum of products with
an infinity of both signs is NaN, the product of a sum is not), and what they give is used under a guard only.
Every rule is proved in tests/rewrites: random programs that it applies to, in float64, many shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kernelwright.rewrites.egraph import ENode, Id
from kernelwright.rewrites.terms import Terms

Apply = Callable[[Terms, ENode, Id], Iterator[Id]]
"""From a call and its class to classes that are equal to it."""


@dataclass(frozen=True)
class Rule:
    """One law of algebra, read in one direction."""

    name: str
    bases: tuple[str, ...]
    """Operators, without namespace and overload, whose calls it looks at."""
    apply: Apply
    finite: bool = False
    """True where it holds for finite values only."""


RULES: dict[str, Rule] = {}
"""Every rule by its name, filled by the modules that define them."""


def rule(*bases: str, finite: bool = False) -> Callable[[Apply], Apply]:
    """Returns a decorator that makes a function a rule, named as the function is."""

    def register(function: Apply) -> Apply:
        name = function.__name__.replace("_", " ")
        RULES[name] = Rule(name=name, bases=bases, apply=function, finite=finite)
        return function

    return register
