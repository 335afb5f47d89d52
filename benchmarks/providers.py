"""What becomes of a call when a provider fails, and of a run that is killed; writes docs/results/providers.md.

    python benchmarks/providers.py --kills 50              # a real minute of silence for stalls; two minutes in all
    python benchmarks/providers.py --kills 2 --stall 2 --results /tmp/p.md

Three protocols (OpenAI's, Anthropic's, Google's) with four faults (429, 500, truncated JSON, a stall), against a
server on this machine that speaks them (tests/llm/stub.py): once, as a passing fault of the only model; and for good,
where a model of another provider is there as well.
**Does not cover**: the providers themselves; nothing is asked of them.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
for place in (ROOT, ROOT / "src"):
    sys.path.insert(0, str(place))

from tests.llm.stub import Stub  # noqa: E402
from tests.run.models.killing import PARALLEL, Count, killed  # noqa: E402

from kernelwright import llm  # noqa: E402
from kernelwright.exchanges import Message, Reply, Request  # noqa: E402
from kernelwright.llm.naming import Remote  # noqa: E402
from kernelwright.llm.pool import TRIES  # noqa: E402
from kernelwright.llm.prices import Price  # noqa: E402

PAGE = ROOT / "docs" / "results" / "providers.md"
KEY = "sk-no-real-key-0123456789abcdef"
TEXT = "One kernel, with an umlaut ü and a snowman ☃, in several pieces of a stream. " * 3
NAMES = {"openai": "openai/gpt-test", "anthropic": "anthropic/claude-test", "google": "google/gemini-test"}
BASES = {"openai": ("OPENAI_API_KEY", "/v1"), "anthropic": ("ANTHROPIC_API_KEY", ""), "google": ("GEMINI_API_KEY", "")}
FAULTS = {"429": "rate limit", "500": "server", "truncated": "malformed", "stall": "stalled"}
"""What the server does, and what the call is to be told as."""
PAID_FOR = ("truncated",)
"""Faults after which a provider has begun to answer: what broke off is paid for."""
PRICE = Price(input_usd=1e4, output_usd=1e4)
WHOLE_USD = PRICE.of(100, 50)
"""Of one whole answer, by the tokens that the server counts."""
FIRST_WAIT_S, SHORT_STALL_S = 0.05, 2.0


@dataclass(frozen=True)
class Case:
    """One provider with one fault, once or for good."""

    provider: str
    fault: str
    lasting: bool


@dataclass(frozen=True)
class Came:
    """What came of a case."""

    reply: Reply
    calls: int
    """That reached the server."""
    seconds: float


def model(name: str, url: str, stall_s: float) -> Remote:
    """Returns a provider's model whose address is this server."""
    provider = name.partition("/")[0]
    key, path = BASES[provider]
    os.environ[key], os.environ[f"{provider.upper()}_BASE_URL"] = KEY, url + path
    made = llm.model_of(name)
    assert isinstance(made, Remote)
    made.stall_s = stall_s
    return made


def another(provider: str) -> str:
    """Returns the model that stands in for a provider's."""
    return next(name for one, name in NAMES.items() if one != provider)


def came_of(case: Case, failing: Remote, stub: Stub, other: Remote | None) -> Came:
    """Asks once, and returns what came."""
    models = (failing, other) if other else (failing,)
    pool = llm.Pool(models, first_wait_s=FIRST_WAIT_S, prices={m.name: PRICE for m in models})
    talk = (Message(role="user", text="a kernel, please"),)
    began = time.monotonic()
    reply = pool.complete(Request(model=NAMES[case.provider], messages=talk, max_tokens=500))
    return Came(reply=reply, calls=len(stub.bodies), seconds=time.monotonic() - began)


def wrong(case: Case, came: Came) -> str:
    """Returns what is not as it should be, empty where all is."""
    reply, told = came.reply, FAULTS[case.fault]
    asked = TRIES if case.lasting else 1
    expected = another(case.provider) if case.lasting else NAMES[case.provider]
    paid = WHOLE_USD * (1 if case.fault not in PAID_FOR else 1.0001)
    checks = {
        "the reply is not whole": reply.text == TEXT,
        f"{reply.model} answered": reply.model == expected,
        f"{len(reply.faults)} faults": len(reply.faults) == asked and reply.attempts == asked + 1,
        f"told as {reply.faults[:1]}": all(told in fault for fault in reply.faults),
        f"${reply.cost_usd:.2f} counted": reply.cost_usd >= paid
        and (case.fault in PAID_FOR or reply.cost_usd < WHOLE_USD * 1.0001),
        "a key is shown": KEY not in repr(reply),
    }
    return ", ".join(text for text, fine in checks.items() if not fine)


def line(case: Case, came: Came) -> str:
    """Returns a line of the table."""
    outcome = wrong(case, came)
    often = "for good" if case.lasting else "once"
    what = f"{TRIES} tries, then {came.reply.model}" if case.lasting else "asked again, the same model"
    paid = f"{came.reply.cost_usd / WHOLE_USD:.2f}"
    row = (case.provider, case.fault, often, FAULTS[case.fault], what, came.reply.attempts, f"{came.seconds:.1f}", paid)
    return f"| {' | '.join(map(str, row))} | {outcome or 'right'} |\n"


def table(stall_s: float) -> tuple[str, int]:
    """Returns the table of all cases, and how many came out right."""
    cases = [Case(provider, fault, lasting) for lasting in (False, True) for provider in NAMES for fault in FAULTS]
    text = (
        "| provider | fault | how often | told as | what the pool did | calls | s | paid, of one answer | outcome |\n"
    )
    text += f"{'|---' * 9}|\n"
    stubs, waiting = [], []
    with ThreadPoolExecutor(len(cases)) as threads:
        for case in cases:
            stub, second = Stub(lambda _: TEXT, (case.fault,) * (TRIES if case.lasting else 1)), Stub(lambda _: TEXT)
            stubs += [stub.__enter__(), second.__enter__()]
            failing = model(NAMES[case.provider], stub.url, min(stall_s, SHORT_STALL_S) if case.lasting else stall_s)
            other = model(another(case.provider), second.url, stall_s) if case.lasting else None
            waiting.append(threads.submit(came_of, case, failing, stub, other))
        came = [one.result() for one in waiting]
    for stub in stubs:
        stub.__exit__()
    text += "".join(line(case, one) for case, one in zip(cases, came, strict=True))
    return text, sum(not wrong(case, one) for case, one in zip(cases, came, strict=True))


def killed_text(count: Count) -> str:
    """Returns what became of the runs that were killed."""
    flying = max(0, count.answered - count.stored)
    return (
        f"{count.runs} runs with an author behind that server were killed with SIGKILL, **{count.kills} times**, "
        "each time after up to six further calls and a moment, and went on; at last each was left alone and ended by "
        f"itself ({count.ended}). Of {count.stored} stored replies and {count.records} records of judgements "
        f"**{count.lost} were lost or changed**, and {count.asked_again} replies were asked for again. The server gave "
        f"{count.answered} whole answers: {flying} were in flight when a process died (at most {PARALLEL} for each "
        f"kill). The stores' own check finds {len(count.damage)} faults.\n"
    )


def main() -> int:
    """Writes the page; 1 where anything is not right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--stall", type=float, default=60.0, help="seconds of silence that count as a stall")
    parser.add_argument("--results", type=Path, default=PAGE)
    given = parser.parse_args()
    faults, right = table(given.stall)
    with tempfile.TemporaryDirectory() as folder:
        count = killed(Path(folder), given.kills)
    cases = 2 * len(NAMES) * len(FAULTS)
    command = f"python benchmarks/providers.py --kills {given.kills} --stall {given.stall:g}"
    given.results.write_text(
        f"# When a provider fails\n\nMade by `{command}` on {datetime.now(UTC):%Y-%m-%d}.\n\n"
        f"A stall is {given.stall:g} s of silence where it happens once, {min(given.stall, SHORT_STALL_S):g} s where "
        f"it lasts. **{right} of {cases} as they should be**: the whole reply, by the model that should give it, the "
        "fault told as what it is, what broke off paid for and nothing else, no key in sight.\n\n"
        f"{faults}\n## Runs that are killed\n\n{killed_text(count)}"
    )
    fine = right == cases and not (count.lost or count.asked_again or count.damage) and count.ended == "finished"
    print(given.results.read_text())
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
