"""A real language model behind a real server that speaks OpenAI's protocol: `small_server.py FOLDER` prints its port.

`transformers` generates, greedily unless a temperature is asked for; the answer is streamed as it comes, with the
counted tokens at the end. It ends with its standard input.
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
import transformers


class Writer:
    """Answers one conversation at a time."""

    def __init__(self, folder: Path) -> None:
        known: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(str(folder), **known)
        self.model: Any = transformers.AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32, **known)
        self.turn = threading.Lock()

    def answer(self, messages: list[dict[str, str]], most: int, temperature: float) -> tuple[Any, int, Any]:
        """Returns (pieces of text as they come, tokens of the prompt, what waits and counts the answer's)."""
        text = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        inputs = self.tokenizer(text, return_tensors="pt", add_special_tokens=False)
        pieces: Any = transformers.TextIteratorStreamer(self.tokenizer, skip_prompt=True, skip_special_tokens=True)
        how: dict[str, Any] = {"max_new_tokens": most, "do_sample": temperature > 0, "streamer": pieces}
        if temperature > 0:
            how["temperature"] = temperature
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(self.model.generate(**inputs, **how)))
        thread.start()
        prompt = int(inputs["input_ids"].shape[1])

        def count() -> int:
            thread.join()
            return int(found[0].shape[1]) - prompt

        return pieces, prompt, count


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"
    writer: Writer

    def log_message(self, *args: Any) -> None:
        """Says nothing."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        most = int(asked.get("max_completion_tokens") or asked["max_tokens"])
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        with self.writer.turn, torch.no_grad():
            pieces, prompt, count = self.writer.answer(asked["messages"], most, float(asked.get("temperature") or 0.0))
            for piece in pieces:
                self.say({"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]})
            said = count()
        self.say({"choices": [{"index": 0, "delta": {}, "finish_reason": "length" if said >= most else "stop"}]})
        self.say({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": said}})
        self.wfile.write(b"data: [DONE]\n\n")

    def say(self, event: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")


def main(folder: str) -> None:
    Handler.writer = Writer(Path(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
