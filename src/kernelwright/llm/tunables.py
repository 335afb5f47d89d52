"""Free parameters in a model's kernel: constants that it left to the tuner.

    constexpr int TILE = 64;  // kw: tune 16, 32, 64, 128
    #define UNROLL 4          // kw: tune 1, 2, 4
    BLOCK = 128  # kw: tune 64, 128, 256

In a `kernelwright-launch:` comment the constant can stand as {TILE}.
Not here: trying the values (search/tune.py).
"""

from __future__ import annotations

import re

from kernelwright.types import Parameter, Point

LINE = re.compile(
    r"^(?P<head>[ \t]*(?:#[ \t]*define[ \t]+(?P<macro>\w+)[ \t]+"
    r"|[^\n=#/]*?\b(?P<name>\w+)(?:[ \t]*:[ \t]*[\w.]+)?[ \t]*=[ \t]*))"
    r"(?P<value>-?\w+)(?P<tail>[ \t]*;?[ \t]*(?://|#)[ \t]*kw:[ \t]*tune[ \t]+)(?P<values>[^\n]*)$",
    re.MULTILINE,
)
NUMBER = re.compile(r"-?\d+")
MOST_PARAMETERS = 4
MOST_VALUES = 8
LAUNCH = re.compile(r"^.*kernelwright-launch:.*$", re.MULTILINE)


def tunables(source: str) -> tuple[Parameter, ...]:
    """Returns the constants that are to be tuned, each with the written value first; those in a wrong form are not."""
    found: dict[str, Parameter] = {}
    for match in LINE.finditer(source):
        name, written = match["macro"] or match["name"], match["value"]
        others = [text.strip() for text in match["values"].split(",")]
        if not NUMBER.fullmatch(written) or not all(NUMBER.fullmatch(text) for text in others) or name in found:
            continue
        values = tuple(dict.fromkeys([int(written), *map(int, others)]))[:MOST_VALUES]
        if len(values) > 1 and len(found) < MOST_PARAMETERS:
            found[name] = Parameter(name=name, values=values)
    return tuple(found.values())


def with_point(source: str, point: Point) -> str:
    """Returns a source with its tuned constants set to a point, in its launch comments as well."""
    chosen = dict(point)

    def line(match: re.Match[str]) -> str:
        name = match["macro"] or match["name"]
        return f"{match['head']}{chosen.get(name, match['value'])}{match['tail']}{match['values']}"

    def launch(match: re.Match[str]) -> str:
        text = match[0]
        for name, number in chosen.items():
            text = text.replace(f"{{{name}}}", str(number))
        return text

    return LAUNCH.sub(launch, LINE.sub(line, source))
