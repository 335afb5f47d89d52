"""The author of code: a causal language model of `transformers`, from a local folder.

Nothing is fetched from a hub and no code of the folder is run. The whole model learns, in float32, with bfloat16
products on a GPU: half a billion parameters take 8 GB so, which is why there are no adapters here.
Not here: prompts (llm/prompts) and what becomes of the answers (training/stages.py).
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from kernelwright.errors import MissingTool, UserError
from kernelwright.training.models.learner import Episode, scored

ENDS = ("<|im_end|>", "<|endoftext|>", "</s>", "<|eot_id|>")
"""What ends a turn, the likeliest first: tokenizers that were
converted from other formats often name another one, and never stop."""

ROWS = {"cpu": 16, "cuda": 256}
"""Answers that are written together: as many as the memory of a usual machine holds the attention of."""


class CodeAuthor:
    """Writes text.

    Args:
        folder: with config, weights and tokenizer.
        device: cpu, cuda, or empty for a GPU where there is one.
    """

    def __init__(self, folder: Path, *, device: str = "") -> None:
        if not (folder / "config.json").is_file():
            raise UserError(f"{folder} holds no model", "name a folder with config.json, weights and tokenizer")
        try:
            self._library: Any = importlib.import_module("transformers")
        except ImportError:
            raise MissingTool("code models need transformers", "pip install 'kernelwright[train]'") from None
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        load: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        self._tokenizer: Any = self._library.AutoTokenizer.from_pretrained(str(folder), **load)
        self.module: Any = self._library.AutoModelForCausalLM.from_pretrained(
            str(folder), dtype=torch.float32, **load
        ).to(self.device)
        self.module.eval()  # there is no dropout to learn with: the same forward is sampled from and learnt by
        self._spare = self.device.type == "cpu" and not self._drops()
        if self._spare:
            newer = getattr(self.module, "activation_checkpointing_enable", None)  # its later name
            (newer or self.module.gradient_checkpointing_enable)()
        known = self._tokenizer.get_vocab()
        ends = [known[word] for word in ENDS if word in known]
        own = [self._tokenizer.eos_token_id] if self._tokenizer.eos_token_id is not None else []
        self._ends: list[int] = list(dict.fromkeys([*ends, *own]))
        self.pad = self._ends[0] if self._ends else 0

    def _drops(self) -> bool:
        """Tells whether anything in the model is left out at random while it is trained."""
        named = {name: share for name, share in self.module.config.to_dict().items() if "drop" in name}
        return any(isinstance(share, float) and share > 0 for share in named.values())

    def prompt(self, messages: Sequence[tuple[str, str]]) -> list[int]:
        """Returns the ids of a conversation (role, text) up to where the answer begins."""
        if self._tokenizer.chat_template:
            turns = [{"role": role, "content": text} for role, text in messages]
            text = self._tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
            return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])
        text = "".join(f"{role}: {text}\n" for role, text in messages) + "assistant: "
        return list(self._tokenizer(text)["input_ids"])

    def answer(self, text: str) -> list[int]:
        """Returns the ids of an answer, ended."""
        return [*self._tokenizer(text, add_special_tokens=False)["input_ids"], *self._ends[:1]]

    def text(self, ids: Sequence[int]) -> str:
        """Returns what ids say, without the end."""
        return str(self._tokenizer.decode(ids, skip_special_tokens=True))

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        """Returns float32 [batch, time, words]; padding on the right changes nothing before it."""
        # Layers are computed again for their gradients where memory is scarcer; there is no dropout to differ.
        self.module.train(self._spare and torch.is_grad_enabled())
        with self._mixed():
            return torch.as_tensor(self.module(input_ids=ids, use_cache=False).logits)

    @torch.no_grad()
    def write(
        self, prompts: Sequence[Sequence[int]], count: int, *, most: int, temperature: float, seed: int
    ) -> list[list[tuple[Episode, bool]]]:
        """Returns answers to each prompt, and for each answer whether it broke off at the longest.

        Args:
            prompts: ids.
            count: answers to each.
            most: tokens of each.
            temperature: of sampling; what the model's own files say of sampling is not used.
            seed: of the draws.
        """
        torch.manual_seed(seed)
        settings = self._library.GenerationConfig(
            do_sample=True, temperature=temperature, top_p=1.0, top_k=0, max_new_tokens=most,
            num_return_sequences=count, eos_token_id=self._ends or None, pad_token_id=self.pad,
        )  # fmt: skip
        together = max(1, ROWS[self.device.type] // count)
        made: list[list[tuple[Episode, bool]]] = []
        for first in range(0, len(prompts), together):
            made += self._written(prompts[first : first + together], count, settings)
        return made

    def _written(self, prompts: Sequence[Sequence[int]], count: int, settings: Any) -> list[list[tuple[Episode, bool]]]:
        longest = max(map(len, prompts))
        ids = torch.full((len(prompts), longest), self.pad)
        seen = torch.zeros_like(ids)
        for row, prompt in enumerate(prompts):  # on the right, where answers go on
            ids[row, longest - len(prompt) :] = torch.tensor(prompt)
            seen[row, longest - len(prompt) :] = 1
        with self._mixed():
            made = self.module.generate(
                input_ids=ids.to(self.device), attention_mask=seen.to(self.device), generation_config=settings
            )
        found: list[list[tuple[Episode, bool]]] = [[] for _ in prompts]
        for row, whole in enumerate(made.tolist()):
            prompt, answer = list(prompts[row // count]), whole[longest:]
            end = next((place for place, word in enumerate(answer) if word in self._ends), None)
            answer = answer if end is None else answer[: end + 1]
            places = list(range(len(prompt), len(prompt) + len(answer)))
            found[row // count].append((Episode(ids=[*prompt, *answer], decisions=places), end is None))
        return found

    def _mixed(self) -> contextlib.AbstractContextManager[Any]:
        return torch.autocast("cuda", torch.bfloat16) if self.device.type == "cuda" else contextlib.nullcontext()

    @torch.no_grad()
    def recall(self, episodes: Sequence[Episode], temperature: float, micro: int) -> None:
        """Fills in the log-probabilities of what was said, by the same forward that learning uses."""
        for start in range(0, len(episodes), micro):
            some = episodes[start : start + micro]
            logs = scored(self, some, temperature)[0].tolist()
            for episode in some:
                episode.logs = [logs.pop(0) for _ in episode.decisions]

    def save(self, folder: Path) -> None:
        """Writes model and tokenizer as `transformers` reads them."""
        self.module.save_pretrained(str(folder))
        self._tokenizer.save_pretrained(str(folder))
