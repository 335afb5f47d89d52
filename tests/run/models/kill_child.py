"""One run with an author behind a server, to be killed: `kill_child.py STORE URL`. It prints why the run stopped."""

from __future__ import annotations

import sys

from tests.run.models.fakes import TextParts
from tests.search.fake_judge import CAPTURE, TARGET

from kernelwright.llm.naming import remote
from kernelwright.run import optimize
from kernelwright.run.models import Authors
from kernelwright.search.authored.evolution import Rules
from kernelwright.store import Store


def main(path: str, url: str) -> None:
    with Store(path) as store:
        seed = None if store.runs() else 5
        who = Authors(models=(remote(f"tiny@{url}/v1"),), parallel=2, rules=Rules(patience=8))
        parts = TextParts(options={"noise": 0.0, "pause_s": 0.002})
        result = optimize(CAPTURE, TARGET, store=store, budget_s=1e9, parts=parts.parts(), seed=seed, authors=who)
    print(result.stopped, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
