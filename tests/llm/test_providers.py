"""Providers against a server that speaks their protocols, with every fault that it can have."""

from __future__ import annotations

import pytest
from tests.llm.stub import FAULTS, Stub

from kernelwright.errors import UserError
from kernelwright.exchanges import Message, Request
from kernelwright.llm import Fault, NoKey, OutOfReach, Pool, model_of
from kernelwright.llm.naming import Remote
from kernelwright.llm.pool import TRIES
from kernelwright.llm.prices import Price

KEY = "sk-test-0123456789abcdefghijklmn"
TEXT = "One kernel, with an umlaut ü and a snowman ☃, in several pieces of a stream. " * 3
NAMES = ("openai/gpt-test", "anthropic/claude-test", "google/gemini-test")


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, KEY)


def request(model: str) -> Request:
    talk = (Message(role="system", text="be quick"), Message(role="user", text="a kernel, please"))
    return Request(model=model, messages=talk, max_tokens=500, temperature=0.5)


def models(stub: Stub, monkeypatch: pytest.MonkeyPatch, *names: str, stall_s: float = 60.0) -> tuple[Remote, ...]:
    monkeypatch.setenv("OPENAI_BASE_URL", stub.url + "/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", stub.url)
    monkeypatch.setenv("GOOGLE_BASE_URL", stub.url)
    made = []
    for name in names:
        model = model_of(name)
        assert isinstance(model, Remote)
        model.stall_s = stall_s
        made.append(model)
    return tuple(made)


@pytest.mark.parametrize("name", NAMES)
def test_a_reply_comes_whole_with_its_tokens(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Stub(lambda _: TEXT) as stub:
        (model,) = models(stub, monkeypatch, name)
        pieces: list[str] = []
        reply = model.complete(request(name), on_text=pieces.append)
    assert reply.text == TEXT
    assert "".join(pieces) == TEXT
    assert len(pieces) > 3
    assert (reply.input_tokens, reply.output_tokens, reply.finish, reply.counted) == (100, 50, "stop", True)
    sent = str(stub.bodies[0])
    assert "be quick" in sent
    assert "a kernel, please" in sent
    assert "500" in sent
    assert KEY not in sent


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_passes_is_outlived(name: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Stub(lambda _: TEXT, (fault,)) as stub:
        (model,) = models(stub, monkeypatch, name, stall_s=1.0 if fault == "stall" else 60.0)
        pool = Pool((model,), first_wait_s=0.01, prices={name: Price(input_usd=1e4, output_usd=1e4)})
        reply = pool.complete(request(name))
    assert reply.text == TEXT
    assert reply.attempts >= 2
    kinds = {
        "429": "rate limit", "500": "server", "503": "overloaded", "truncated": "malformed", "stall": "stalled",
        "drop": "dropped", "malformed": "malformed", "error event": "overloaded", "no end": "dropped",
    }  # fmt: skip
    assert kinds[fault] in reply.faults[0]
    whole = 150 * 1e4 / 1e6
    if fault in ("truncated", "drop", "error event", "no end"):
        assert reply.cost_usd > whole  # what broke off is paid for as well
    elif fault != "stall":
        assert reply.cost_usd == pytest.approx(whole) or fault == "malformed"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("finish", ["refusal", "length"])
def test_how_a_reply_ended_is_told(name: str, finish: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Stub(lambda _: TEXT, (finish,)) as stub:
        (model,) = models(stub, monkeypatch, name)
        reply = Pool((model,)).complete(request(name))
    assert reply.finish == finish


@pytest.mark.parametrize("fault", ["401", "404", "500", "refusal"])
def test_another_model_takes_over(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Stub(lambda _: TEXT, (fault,) * (4 if fault == "500" else 1)) as stub:
        pool = Pool(models(stub, monkeypatch, *NAMES), first_wait_s=0.01)
        reply = pool.complete(request(NAMES[1]))
    assert reply.text == TEXT
    assert reply.model == NAMES[0]
    assert NAMES[1] in reply.faults[0]


def test_a_wrong_request_is_not_asked_of_a_model_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    with Stub(lambda _: TEXT, ("400", "400")) as stub:
        pool = Pool(models(stub, monkeypatch, *NAMES[:2]), first_wait_s=0.01)
        with pytest.raises(Fault, match="request"):
            pool.complete(request(NAMES[0]))
        assert len(stub.bodies) == 2
        assert pool.complete(request(NAMES[0])).model == NAMES[0]


def test_without_any_model_the_pool_pauses_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    with Stub(lambda _: TEXT, ("500",) * TRIES) as stub:
        pool = Pool(models(stub, monkeypatch, NAMES[0]), first_wait_s=0.01, on_event=said.append)
        reply = pool.complete(request(NAMES[0]))
    assert reply.text == TEXT
    assert reply.attempts == TRIES + 1
    assert any("paused" in line for line in said)


def test_an_impatient_pool_gives_up_and_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with Stub(lambda _: TEXT, ("500",) * 200) as stub:
        pool = Pool(models(stub, monkeypatch, NAMES[0]), first_wait_s=0.01, patience_s=0.0)
        with pytest.raises(OutOfReach, match="goes on from here"):
            pool.complete(request(NAMES[0]))
        assert len(stub.bodies) == TRIES


def test_keys_come_back_from_a_provider_without_being_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    with Stub(lambda _: f"your key is {KEY}, mine is sk-proj-abcdefghijklmnopqrstuvwx", ("500", "401")) as stub:
        pool = Pool(models(stub, monkeypatch, *NAMES[:2]), first_wait_s=0.01, on_event=said.append)
        reply = pool.complete(request(NAMES[0]))
    assert any(KEY in str(headers) for headers in stub.headers)
    shown = " ".join([*said, *reply.faults, reply.text, repr(reply), repr(pool.models)])
    assert "no luck with" in shown
    assert KEY not in shown
    assert "sk-proj" not in shown
    assert "[key removed]" in reply.text


def test_what_is_wrong_with_a_name_is_said_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="openai"):
        model_of("gpt-5")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(NoKey, match="ANTHROPIC_API_KEY"):
        model_of("anthropic/claude-test")
    with Stub(lambda _: TEXT) as stub:
        own = model_of(f"tiny@{stub.url}/v1")
        assert own.local
        assert own.complete(request(own.name)).text == TEXT
        assert stub.bodies[0]["model"] == "tiny"
        assert "authorization" not in stub.headers[0]
