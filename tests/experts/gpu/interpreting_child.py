"""Runs many tile plans in one process: `python -m tests.experts.gpu.interpreting_child LANGUAGE FOLDER...`.

The language's interpreter is imported once; every plan then runs in a fork of its own, since two candidates' modules
have the same name.
"""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module

WORKERS = {"triton": "kernelwright.tiles.triton_interpret", "cutile": "kernelwright.tiles.cutile_interpret"}


def main() -> None:
    language, folders = sys.argv[1], sys.argv[2:]
    worker = import_module(WORKERS[language])
    serve, match = worker.serve, import_module(f"kernelwright.languages.{language}").match
    if language == "triton":
        worker.mend()
        import_module("torch")  # Triton asks for it at the first launch: in every fork that would take 1.9 s anew
    for folder in folders:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                sys.argv = [sys.argv[0], folder]
                serve(worker.run_step, match)
                status = 0
            except BaseException:  # noqa: BLE001  (whatever it is, the parent of the fork goes on)
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
