"""Any coding agent as an author: it gets a folder with a task and leaves a kernel file in it.

The command runs in a shell in that folder, with TASK.md in it; whatever it writes to `kernel.cpp`, `kernel.cu` or
`kernel.py` is its reply, and NOTES.md, where it leaves one, its reasons. It may call `kernelwright judge` itself.
**Covers**: a deadline for the whole process group; keys in what it prints or writes.
**Does not cover**: what the command does besides: it is the user's own program and runs with the user's rights.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from kernelwright.exchanges import Reply, Request
from kernelwright.llm.dialects import OnText, estimated_tokens, texts
from kernelwright.llm.faults import Fault
from kernelwright.llm.secrets import scrubbed

TASK = "TASK.md"
NOTES = "NOTES.md"
KERNELS = {"kernel.cpp": "cpp", "kernel.cu": "cuda", "kernel.py": "python"}
DEADLINE_S = 1800.0
MOST_BYTES = 1 << 20
ADVICE = """

## Where to write it

You work in this folder. Write the kernel to `kernel.cpp` (C++), `kernel.cu` (CUDA C++) or `kernel.py` (tile kernels);
put your reasons into `NOTES.md`, the intent as its first line. `kernelwright judge SOURCE kernel.cpp` judges a kernel.
"""


class Command:
    """A command as a model.

    Args:
        command: a shell command.
        deadline_s: it and everything it started is killed when it takes longer.
        folder: where task folders are made; None takes the system's temporary folder.
    """

    name = "command"
    local = True

    def __init__(self, command: str, *, deadline_s: float = DEADLINE_S, folder: Path | None = None) -> None:
        self._command = command
        self._deadline_s = deadline_s
        self._folder = folder

    def complete(self, request: Request, *, on_text: OnText | None = None) -> Reply:
        """Returns what the command left in its folder.

        Raises:
            Fault: `stalled` at the deadline; `no kernel` where it left none.
        """
        started = time.monotonic()
        if self._folder:
            self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="task-", dir=self._folder, ignore_cleanup_errors=True) as made:
            folder = Path(made)
            task = "\n\n".join(texts(request)) + ADVICE
            (folder / TASK).write_text(task, encoding="utf-8")
            said = self._run(folder)
            text = _reply_of(folder)
        if not text:
            raise Fault("no kernel", f"the command left no kernel file; it said: {said[-300:]}")
        text = scrubbed(text)
        if on_text:
            on_text(text)
        return Reply(
            text=text, model=self.name, input_tokens=estimated_tokens(task), output_tokens=estimated_tokens(text),
            counted=False, seconds=time.monotonic() - started,
        )  # fmt: skip

    def _run(self, folder: Path) -> str:
        environment = {**os.environ, "KERNELWRIGHT_TASK": str(folder / TASK)}
        with tempfile.TemporaryFile() as printed:
            process = subprocess.Popen(
                self._command, shell=True, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=printed,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                process.wait(timeout=self._deadline_s)
            except subprocess.TimeoutExpired:
                raise Fault("stalled", f"the command took more than {self._deadline_s:.0f} s") from None
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            printed.seek(max(0, printed.seek(0, os.SEEK_END) - 4096))
            return printed.read().decode("utf-8", "replace")


def _reply_of(folder: Path) -> str:
    """Returns the newest kernel file and the notes as a reply's text, empty where there is no kernel."""
    files = [folder / name for name in KERNELS]
    there = [f for f in files if f.is_file() and not f.is_symlink() and 0 < f.stat().st_size <= MOST_BYTES]
    if not there:
        return ""
    kernel = max(there, key=lambda f: f.stat().st_mtime_ns)
    notes = folder / NOTES
    reasons = (
        notes.read_text("utf-8", "replace")[:8000] if notes.is_file() and not notes.is_symlink() else "Intent: agent"
    )
    if not reasons.lower().startswith("intent"):
        reasons = "Intent: " + reasons
    return f"{reasons.strip()}\n\n```{KERNELS[kernel.name]}\n{kernel.read_text('utf-8', 'replace').rstrip()}\n```\n"
