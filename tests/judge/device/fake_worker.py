"""A device worker without a device: its candidates' sources say what becomes of them."""

from __future__ import annotations

import os
import time
from typing import Any

from kernelwright.errors import KernelwrightError
from kernelwright.process import serve
from kernelwright.types import Check, Failure, Judgement, Verdict


def probe(emit: Any) -> bool:
    if os.environ.get("NO_DEVICE"):
        raise KernelwrightError("the device gave another answer than it should")
    return True


def judge(emit: Any, *, candidate: Any, artifact: Any, policy: Any) -> Any:
    word = candidate.sources[0].text
    if word == "dies":
        os._exit(7)
    if word == "hangs":
        time.sleep(60)
    if word == "breaks":
        return Failure(stage="run", kind="memory", message="an address that is not its own"), False
    if word == "refused":
        return Failure(stage="run", kind="launch", message="too many threads"), True
    return Judgement(verdict=Verdict(checks=(Check(name="process", passed=True, evidence=str(os.getpid())),))), True


def accept(emit: Any, **_: Any) -> bool:
    return True


if __name__ == "__main__":
    serve({"probe": probe, "open": accept, "prepare": accept, "judge": judge, "baselines": accept})
