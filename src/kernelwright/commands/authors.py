"""The options that put language models to work, and what becomes of them.

Not here: the commands that have these options, and the models (llm).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from kernelwright.commands.options import Seconds
from kernelwright.errors import UserError

if TYPE_CHECKING:
    from kernelwright.llm import Model
    from kernelwright.llm.prices import Price
    from kernelwright.run.models import Authors

USUAL_USD = 5.0
"""What models that cost money may cost where the user does not say."""
LANGUAGES = {"cpu": "cpp", "cuda": "cuda"}
GUIDED = ("cpp", "cuda", "triton")
MAX_TOKENS = 16_000
"""What llm.prompts and run.models say too, here so that help need not load them."""


def author_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of models and their budget; the command gets them as `authoring`."""

    @functools.wraps(command)
    def gathered(**given: Any) -> None:
        authoring = {name: given.pop(name) for name in NAMES}
        command(authoring=authoring, **given)

    made: Callable[..., None] = gathered
    for option in reversed(OPTIONS):
        made = option(made)
    return made


OPTIONS = (
    click.option(
        "--model", "models", multiple=True, metavar="NAME",
        help="Have kernels written by openai/NAME, anthropic/NAME, google/NAME, ollama/NAME, NAME@http://host/v1, "
        "replay/FILE, local:DIR ...; can be repeated. Keys come from the environment.",
    ),
    click.option(
        "--author-command", metavar="CMD", help="Have kernels written by a command that finds TASK.md in its folder."
    ),
    click.option(
        "--usd", type=click.FloatRange(0, min_open=True),
        help=f"The most that models may cost in this folder  [default: {USUAL_USD:g} where they cost anything]",
    ),
    click.option("--tokens", type=click.IntRange(1), help="The most tokens, of prompts and replies together."),
    click.option("--judgements", type=click.IntRange(1), help="The most new judgements."),
    click.option("--price", "prices", multiple=True, metavar="NAME=IN,OUT", help="USD for a million tokens."),
    click.option("--review", "reviewer", metavar="NAME", help="A --model that may object to kernels before judging."),
    click.option("--language", type=click.Choice(GUIDED), help="That kernels are written in  [default: cpp, or cuda]"),
    click.option("--profile", is_flag=True, help="Tell models where a kernel stands against the machine's limits."),
    click.option("--max-tokens", type=click.IntRange(256), default=MAX_TOKENS, show_default=True, help="Of an answer."),
    click.option("--temperature", type=click.FloatRange(0, 2), help="[default: the provider's]"),
    click.option("--parallel", type=click.IntRange(1, 32), default=4, show_default=True, help="Calls at once."),
    click.option(
        "--patience", type=Seconds(), default="15m", show_default=True,
        help="How long all models may be out of reach before the search ends.",
    ),
)  # fmt: skip
NAMES = (
    "models", "author_command", "usd", "tokens", "judgements", "prices", "reviewer", "language", "profile",
    "max_tokens", "temperature", "parallel", "patience",
)  # fmt: skip


def authors_of(given: dict[str, Any], device: str) -> Authors | None:
    """Returns the authors that the options ask for, None where they ask for none.

    Raises:
        UserError: a model is not known, its key is missing, or a limit of money cannot be held without its price.
    """
    if not given["models"] and not given["author_command"]:
        return None
    from kernelwright import llm
    from kernelwright.llm.prices import FREE, parsed_prices
    from kernelwright.run.models import Authors, Budget
    from kernelwright.run.models.writing import Writing
    from kernelwright.training import choosing

    choosers = [name for name in given["models"] if choosing.is_chooser(name)]
    if len(choosers) > 1:
        raise UserError("two models that choose schedules", "give one --model of this kind")
    models: list[Model] = [llm.model_of(name) for name in given["models"] if name not in choosers]
    if given["author_command"]:
        models.append(llm.Command(given["author_command"]))
    reviewer = given["reviewer"] or ""
    if reviewer and reviewer not in (model.name for model in models):
        raise UserError(f"{reviewer} reviews, and is no --model", f"add --model {reviewer}: it may write as well")
    prices = _prices(models, parsed_prices(given["prices"]))
    costly = any(price != FREE for price in prices.values())
    usd = given["usd"] if given["usd"] is not None else USUAL_USD if costly else None
    return Authors(
        models=tuple(models),
        prices=prices,
        budget=Budget(usd=usd, tokens=given["tokens"], judgements=given["judgements"]),
        writing=Writing(
            language=given["language"] or LANGUAGES[device], max_tokens=given["max_tokens"],
            temperature=given["temperature"], reviewer=reviewer, profile=given["profile"],
        ),
        parallel=given["parallel"],
        patience_s=given["patience"],
        chooser=choosing.chooser(choosers[0]) if choosers else None,
    )  # fmt: skip


def _prices(models: list[Model], given: dict[str, Price]) -> dict[str, Price]:
    from kernelwright.llm.prices import price_of

    found = {}
    for model in models:
        price = price_of(model.name, given, local=model.local)
        if price is None:
            fix = f"say it: --price {model.name}=IN,OUT (USD per million tokens; 0,0 where it costs nothing)"
            raise UserError(f"what {model.name} costs is not known, so no limit could be held", fix)
        found[model.name] = price
    return found
