"""`local:DIR`: a code model in a folder of this machine, such as `kernelwright train` leaves behind.

It lives in a process of its own, which is started at the first request, by name: this side loads no framework.
Not here: authors of schedules, which answer no prompts (training/choosing.py).
"""

from __future__ import annotations

import threading
import time
import weakref
from pathlib import Path

from kernelwright.errors import UserError, WorkerDied
from kernelwright.exchanges import Reply, Request
from kernelwright.llm.dialects import OnText
from kernelwright.llm.faults import Fault
from kernelwright.process import Worker

PREFIX = "local:"
WORKER = "kernelwright.training.models.worker"
OPEN_S, ANSWER_S = 600.0, 1800.0
USUAL_TEMPERATURE = 1.0


class Local:
    """A local code model.

    Args:
        folder: with config.json, weights and tokenizer, or a training stage's folder that has such a one as `model`.

    Raises:
        UserError: it holds no code model.
    """

    local = True

    def __init__(self, folder: Path) -> None:
        self.name = f"{PREFIX}{folder}"
        found = next((f for f in (folder, folder / "model") if (f / "config.json").is_file()), None)
        if found is None:
            raise UserError(f"{folder} holds no code model", "name a folder with config.json, weights and tokenizer")
        self._folder = found
        self._worker: Worker | None = None
        self._turn = threading.Lock()

    def complete(self, request: Request, *, on_text: OnText | None = None) -> Reply:
        """Returns what the model answers; the same for the same request, on the same machine.

        Raises:
            Fault: `stalled` where its process ended or took too long.
            MissingTool: transformers is not installed.
        """
        started = time.monotonic()
        told = tuple((message.role, message.text) for message in request.messages)
        temperature = USUAL_TEMPERATURE if request.temperature is None else max(request.temperature, 0.01)
        with self._turn:
            try:
                groups = self._ready().request(
                    "write", prompts=(told,), count=1, most=request.max_tokens, temperature=temperature,
                    seed=request.ordinal, deadline_s=ANSWER_S,
                )  # fmt: skip
            except WorkerDied as error:
                raise Fault("stalled", error.message) from error
        (((text, read, said, broke_off),),) = groups
        if on_text:
            on_text(text)
        return Reply(
            text=text, model=self.name, input_tokens=read, output_tokens=said,
            finish="length" if broke_off else "stop", seconds=time.monotonic() - started,
        )  # fmt: skip

    def _ready(self) -> Worker:
        if self._worker is None or not self._worker.alive:
            worker = Worker(WORKER)
            try:
                worker.request(
                    "open", folder=str(self._folder), words=(), seed=0, rates={}, device="", deadline_s=OPEN_S
                )
            except BaseException:
                worker.close()
                raise
            self._worker = worker
            weakref.finalize(self, worker.close)
        return self._worker

    def close(self) -> None:
        """Ends its process; harmless when there is none."""
        if self._worker is not None:
            self._worker.kill()
