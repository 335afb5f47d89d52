"""From what a user writes after --model to something that can be asked.

    openai/NAME  anthropic/NAME  google/NAME  openrouter/NAME  deepseek/NAME  mistral/NAME   hosted
    ollama/NAME  vllm/NAME  sglang/NAME  llamacpp/NAME                                       on this machine
    NAME@http://host:8000/v1                      any server that speaks OpenAI's protocol
    local:DIR                                                                                a folder with a model
    replay/FILE                                   recorded replies
    command                                       what --author-command runs

Keys come from the environment only: OPENAI_API_KEY and the like; for NAME@URL, KERNELWRIGHT_API_KEY where it is set.
OPENAI_BASE_URL and the like name another address of a provider.
Not here: what is sent (dialects.py).
"""

from __future__ import annotations

import time
from typing import Protocol

from kernelwright import environment
from kernelwright.errors import UserError
from kernelwright.exchanges import Reply, Request
from kernelwright.llm import http
from kernelwright.llm.dialects import Anthropic, Chat, Dialect, Google, OnText, estimated_tokens, listen, texts
from kernelwright.llm.faults import NoKey
from kernelwright.llm.secrets import scrubbed
from kernelwright.values import value


@value
class Provider:
    """Where a provider is and how it is asked."""

    dialect: Dialect
    base: str
    keys: tuple[str, ...] = ()
    """Environment variables that may hold the key; without any, it runs here and costs nothing."""


PROVIDERS: dict[str, Provider] = {
    "openai": Provider(
        dialect=Chat("max_completion_tokens"), base="https://api.openai.com/v1", keys=("OPENAI_API_KEY",)
    ),
    "anthropic": Provider(dialect=Anthropic(), base="https://api.anthropic.com", keys=("ANTHROPIC_API_KEY",)),
    "google": Provider(
        dialect=Google(), base="https://generativelanguage.googleapis.com", keys=("GEMINI_API_KEY", "GOOGLE_API_KEY")
    ),
    "openrouter": Provider(dialect=Chat(), base="https://openrouter.ai/api/v1", keys=("OPENROUTER_API_KEY",)),
    "deepseek": Provider(dialect=Chat(), base="https://api.deepseek.com/v1", keys=("DEEPSEEK_API_KEY",)),
    "mistral": Provider(dialect=Chat(), base="https://api.mistral.ai/v1", keys=("MISTRAL_API_KEY",)),
    "ollama": Provider(dialect=Chat(), base="http://127.0.0.1:11434/v1"),
    "vllm": Provider(dialect=Chat(), base="http://127.0.0.1:8000/v1"),
    "sglang": Provider(dialect=Chat(), base="http://127.0.0.1:30000/v1"),
    "llamacpp": Provider(dialect=Chat(), base="http://127.0.0.1:8080/v1"),
}


class Model(Protocol):
    """Something that answers requests.

    Covers: one request, one reply, whole; pieces of the text are passed on as they come.
    Does not cover: trying again, switching, limits and storing (pool.py, run/writing.py).
    """

    name: str
    local: bool
    """True where a call costs no money."""

    def complete(self, request: Request, *, on_text: OnText | None = None) -> Reply:
        """Returns the reply; raises Fault where there is none."""


class Remote:
    """A model behind HTTP."""

    def __init__(self, name: str, *, served_as: str, provider: Provider, base: str, key: str) -> None:
        self.name = name
        self.local = not provider.keys
        self._served_as = served_as
        self._dialect = provider.dialect
        self._base = base.rstrip("/")
        self._key = key
        self.stall_s = http.LOCAL_STALL_S if self.local else http.STALL_S
        self.call_s = http.LOCAL_CALL_S if self.local else http.CALL_S

    def complete(self, request: Request, *, on_text: OnText | None = None) -> Reply:
        """Returns the reply of one call, never tried twice here.

        Raises:
            Fault: when there is none.
        """
        started = time.monotonic()
        url, headers, body = self._dialect.call(self._base, self._served_as, self._key, request)
        came = http.events(url, body, headers=headers, stall_s=self.stall_s, call_s=self.call_s)
        heard = listen(came, self._dialect, on_text)
        counted = heard.input_tokens is not None and heard.output_tokens is not None
        return Reply(
            text=scrubbed(heard.text),
            model=self.name,
            input_tokens=heard.input_tokens if counted else sum(map(estimated_tokens, texts(request))),  # type: ignore[arg-type]
            output_tokens=heard.output_tokens if counted else estimated_tokens(heard.text),  # type: ignore[arg-type]
            finish=heard.finish or "stop",
            counted=counted,
            seconds=time.monotonic() - started,
        )


def remote(name: str) -> Remote:
    """Returns the model that a name stands for.

    Raises:
        UserError: for a provider that is not known, or a name without one.
        NoKey: when its key is not in the environment; the fix names the variable.
    """
    if "@http://" in name or "@https://" in name:
        served_as, _, url = name.partition("@")
        key = environment.key("KERNELWRIGHT_API_KEY")
        own = Provider(dialect=Chat(), base=url, keys=("KERNELWRIGHT_API_KEY",) if key else ())
        return Remote(name, served_as=served_as, provider=own, base=url, key=key)
    start, _, served_as = name.partition("/")
    if start not in PROVIDERS or not served_as:
        fix = f"write PROVIDER/NAME with one of {', '.join(PROVIDERS)}, or NAME@http://host:port/v1"
        raise UserError(f"{name!r} names no model", fix)
    provider = PROVIDERS[start]
    key = next((found for variable in provider.keys if (found := environment.key(variable))), "")
    if provider.keys and not key:
        raise NoKey(f"there is no key for {name}", f"set {' or '.join(provider.keys)} in the environment")
    return Remote(
        name, served_as=served_as, provider=provider, base=environment.base_url(start) or provider.base, key=key
    )
