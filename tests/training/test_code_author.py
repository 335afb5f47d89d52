"""The author of code, with a tiny random model made here: prompts, exact log-probabilities, learning, stopping."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
from tests.search.fake_judge import TARGET
from tests.training.in_process import InProcess
from tests.training.test_practice import EXERCISE

from kernelwright.exchanges import Message, Request
from kernelwright.llm import model_of
from kernelwright.training import authors
from kernelwright.training.checkpoints import Checkpoints
from kernelwright.training.exercises import Exercise
from kernelwright.training.models.code import CodeAuthor
from kernelwright.training.models.learner import Episode, Learner, Rates, scored
from kernelwright.training.practice import CodePractice, as_text
from kernelwright.training.reward import Reward, RewardSettings
from kernelwright.training.stages import Settings, Stage, Training
from kernelwright.types import Candidate, Failure, Record, digest

transformers = pytest.importorskip("transformers")

LETTERS = [*"abcdefghijklmnopqrstuvwxyz", *' :.\n`"(){};+=-*<>[]0123456789']


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizers = pytest.importorskip("tokenizers")
    words = {word: place for place, word in enumerate(["<unk>", "<|im_start|>", "<|im_end|>", *LETTERS])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex("."), "isolated")
    made.decoder = tokenizers.decoders.Fuse()
    # The wrong end of a turn, as tokenizers that were converted from GGUF name it.
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="<unk>", eos_token="<|im_start|>", additional_special_tokens=["<|im_end|>"]
    )
    config = transformers.LlamaConfig(
        vocab_size=len(words), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=512, bos_token_id=None, eos_token_id=None, tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(0)
    where: Path = tmp_path_factory.mktemp("model")
    transformers.LlamaForCausalLM(config).save_pretrained(where)
    fast.save_pretrained(where)
    return where


PROMPT = (("user", "write a kernel"),)


def test_what_was_written_is_scored_as_it_was_sampled(folder: Path) -> None:
    author = CodeAuthor(folder, device="cpu")
    prompt = author.prompt(PROMPT)
    assert author.text(prompt).endswith("assistant: ")
    other = author.prompt((("user", "write another kernel than that"),))
    groups = author.write([prompt, other], 3, most=12, temperature=0.8, seed=5)
    episodes, broken = zip(*(pair for group in groups for pair in group), strict=True)
    again = [e for group in author.write([prompt, other], 3, most=12, temperature=0.8, seed=5) for e, _ in group]
    assert [e.ids[: len(p)] for e, p in zip(episodes, [prompt] * 3 + [other] * 3, strict=True)] == [prompt] * 3 + [
        other
    ] * 3
    assert [e.ids for e in episodes] == [e.ids for e in again]
    assert len({tuple(e.ids) for e in episodes}) > 1
    author.recall(episodes, 0.8, 2)
    for episode, off in zip(episodes, broken, strict=True):
        assert off == (episode.ids[-1] not in author.answer("")[-1:] and len(episode.decisions) == 12)
        logits = author.module(input_ids=torch.tensor([episode.ids])).logits[0].double() / 0.8
        expected = [torch.log_softmax(logits[p - 1], 0)[episode.ids[p]].item() for p in episode.decisions]
        assert episode.logs == pytest.approx(expected, abs=1e-4)


def test_a_lesson_is_learnt_and_ends_the_turn(folder: Path, tmp_path: Path) -> None:
    author = CodeAuthor(folder, device="cpu")
    learner = Learner(author, Rates(learning=1e-2))
    prompt, answer = author.prompt(PROMPT), author.answer("abc")
    assert author.text(answer) == "abc"
    episode = Episode(ids=[*prompt, *answer], decisions=list(range(len(prompt), len(prompt) + len(answer))))
    for _ in range(30):
        learner.imitate([episode], [1.0])
    assert scored(author, [episode], 1.0)[0].exp().min().item() > 0.8
    author.save(tmp_path)
    kept = CodeAuthor(tmp_path, device="cpu")
    (((written, off),),) = kept.write([prompt], 1, most=12, temperature=0.05, seed=0)
    assert kept.text(written.ids[len(prompt) :]) == "abc"
    assert not off


class Aloud(CodePractice):
    """Takes whatever is said for a kernel."""

    def _read(self, exercise: Exercise, text: str, broke_off: bool) -> Candidate | str:
        return as_text(exercise, text, "cpp")


class Vowels:
    """Pays for vowels."""

    settings = RewardSettings()

    def rewards(
        self, exercise: Exercise, candidates: Iterable[Candidate], *, exemplars: tuple[str, ...] = ()
    ) -> dict[Candidate, tuple[Reward, Record]]:
        return {c: (self._worth(c.sources[0].text), _record(digest(c))) for c in candidates}

    def _worth(self, text: str) -> Reward:
        return Reward(value=sum(text.count(v) for v in "aeiou") / max(1, len(text)), kind="verified", why="")


def _record(candidate: str) -> Record:
    return Record(
        problem="p", candidate=candidate, target="t", policy="p",
        outcome=Failure(stage="judge", kind="none", message="not judged"),
    )  # fmt: skip


@pytest.mark.parametrize("stage", ["sft", "contrast"])
def test_a_code_author_that_was_stopped_goes_on_as_if_it_had_not_been(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: Stage
) -> None:
    monkeypatch.setattr(authors, "Worker", InProcess)

    def train(out: Path, steps: int, *, resume: bool = False) -> dict[str, torch.Tensor]:
        kept = Checkpoints(out, {}, resume=resume)
        with authors.Author(kept.model or str(folder), rates={"learning": 1e-3, "micro": 2}, device="cpu") as author:
            if kept.latest is not None:
                author.resume(kept.latest)
            settings = Settings(stage=stage, problems=1, group=3, lessons=1)
            practice = Aloud(author, TARGET, most=8)
            Training(practice, (EXERCISE,), Vowels(), settings, kept).run(steps=steps)
        return dict(safetensors.load_file(out / "model" / "model.safetensors"))

    safetensors = pytest.importorskip("safetensors.torch")
    begun = safetensors.load_file(folder / "model.safetensors")
    whole = train(tmp_path / "whole", 4)
    train(tmp_path / "parts", 2)
    parts = train(tmp_path / "parts", 4, resume=True)
    assert whole.keys() == parts.keys() == begun.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert not all(torch.equal(whole[name], begun[name]) for name in whole)


def test_a_local_model_answers_requests_as_any_other(folder: Path) -> None:
    model = model_of(f"local:{folder}")
    request = Request(model=model.name, messages=(Message(role="user", text="write"),), max_tokens=8, temperature=1.0)
    reply = model.complete(request)
    assert reply == model.complete(request)
    assert (reply.model, reply.finish) == (f"local:{folder}", "length" if reply.output_tokens == 8 else "stop")
    assert reply.input_tokens > 0


def test_the_tokenizers_own_end_is_not_trusted(folder: Path) -> None:
    assert json.loads((folder / "tokenizer_config.json").read_text())["eos_token"] == "<|im_start|>"
    author = CodeAuthor(folder, device="cpu")
    assert author.text(author.answer("a")) == "a"
    assert author.answer("a")[-1] == 2
