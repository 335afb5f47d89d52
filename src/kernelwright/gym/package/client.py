"""Talks to a gym (`kernelwright env`): the standard library is all it needs.

Sending the same kernel twice is harmless, so everything is tried again until `patience_s` is over.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

URL = os.environ.get("KERNELWRIGHT_ENV_URL", "http://127.0.0.1:8731")
TOKEN = os.environ.get("KERNELWRIGHT_ENV_TOKEN", "")
WAIT_S = 30
AGAIN = (429, 502, 503, 504)


class GymError(Exception):
    """The gym could not say what a kernel is worth: nothing may be learnt from this one."""


class Client:
    """A gym somewhere.

    Args:
        url: of `kernelwright env`.
        token: where it wants one.
        patience_s: for one question or one verdict, retries and waiting in its queue included.
    """

    def __init__(self, url: str = URL, *, token: str = TOKEN, patience_s: float = 900.0) -> None:
        self.url, self._token, self._patience_s = url.rstrip("/"), token, patience_s
        # Never through a proxy of the environment's: kernels and the token are for the gym alone.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def problems(self) -> list[str]:
        """Returns the names of its problems."""
        return [entry["name"] for entry in self._ask("/v1/problems")["problems"]]

    def languages(self) -> list[str]:
        """Returns the languages that kernels can be written in there."""
        found: list[str] = self._ask("/v1/problems")["languages"]
        return found

    def task(self, problem: str, language: str) -> dict[str, Any]:
        """Returns a task: `messages` (system and user), `reference`, `skeleton`."""
        query = urllib.parse.urlencode({"language": language})
        return self._ask(f"/v1/problems/{urllib.parse.quote(problem, safe='')}?{query}")

    def score(self, problem: str, reply: str, *, language: str, exemplars: tuple[str, ...] = ()) -> dict[str, Any]:
        """Returns what a model's whole answer is worth: `reward`, `kind`, `why`, `passed`, `speedup`, `feedback`.

        Raises:
            GymError: there is no verdict within the client's patience, or the request was refused.
        """
        body = {"problem": problem, "reply": reply, "language": language, "exemplars": list(exemplars)}
        until = time.monotonic() + self._patience_s
        found = self._ask(f"/v1/submissions?wait_s={WAIT_S}", body, until=until)
        while found.get("reward") is None:
            if time.monotonic() > until:
                raise GymError(f"no verdict within {self._patience_s:g} s: {found.get('why', found['state'])}")
            if found["state"] in ("waiting", "judging"):
                found = self._ask(f"/v1/submissions/{found['id']}?wait_s={WAIT_S}", until=until)
            else:  # late, stopped or undecided: worth another try
                time.sleep(1.0)
                found = self._ask(f"/v1/submissions?wait_s={WAIT_S}", body, until=until)
        return found

    def _ask(self, path: str, body: dict[str, Any] | None = None, *, until: float | None = None) -> dict[str, Any]:
        until = time.monotonic() + self._patience_s if until is None else until
        headers = {"Content-Type": "application/json"} | (
            {"Authorization": f"Bearer {self._token}"} if self._token else {}
        )
        data = None if body is None else json.dumps(body).encode()
        pause_s = 0.5
        while True:
            request = urllib.request.Request(self.url + path, data=data, headers=headers)
            try:
                with self._opener.open(request, timeout=WAIT_S + 60) as answer:
                    found: dict[str, Any] = json.load(answer)
                    return found
            except urllib.error.HTTPError as error:
                with error:
                    said, again_s = error.read().decode(errors="replace"), error.headers.get("Retry-After", "")
                if error.code not in AGAIN or time.monotonic() > until:
                    raise GymError(f"{self.url} answered {error.code}: {said[:500]}") from None
                pause_s = float(again_s) if again_s.isdecimal() else pause_s
            except (OSError, ValueError) as error:
                if time.monotonic() > until:
                    raise GymError(f"{self.url} cannot be reached: {error}") from None
            time.sleep(min(pause_s, max(0.0, until - time.monotonic())))
            pause_s = min(2 * pause_s, 10.0)
