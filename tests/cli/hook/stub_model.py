"""A model that always says the same, on loopback, as Anthropic, OpenAI and Google answer; keeps what it was asked.

A coding agent that is pointed at it lives a whole session without an account, a key or a network.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Events = list[dict[str, Any]]


class Model:
    """`asked` are the bodies of requests, as text, in their order; `address` is where it listens."""

    def __init__(self, says: str, address: str) -> None:
        self.says, self.address = says, address
        self.asked: list[str] = []

    def answer(self, path: str, question: dict[str, Any]) -> Any:
        """A JSON document, or the events of a stream."""
        if path.endswith("/messages"):
            return self._anthropic(question)
        if path.endswith("/responses"):
            return self._responses(question)
        if path.endswith("/chat/completions"):
            return self._completions(question)
        return self._google(path)

    def _anthropic(self, question: dict[str, Any]) -> Any:
        text = {"type": "text", "text": self.says}
        usage = {"input_tokens": 5, "output_tokens": 5}
        message = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": question.get("model", "stub"),
            "content": [text], "stop_reason": "end_turn", "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        if not question.get("stream"):
            return message
        return [
            {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": self.says}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ]

    def _responses(self, question: dict[str, Any]) -> Any:
        part = {"type": "output_text", "text": self.says, "annotations": []}
        item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
        usage = {
            "input_tokens": 5, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 10,
        }  # fmt: skip
        done = {
            "id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "stub",
            "output": [item], "usage": usage,
        }  # fmt: skip
        if not question.get("stream"):
            return done
        begun = {**item, "content": [], "status": "in_progress"}
        at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        return [
            {"type": "response.created", "response": {**done, "status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": begun},
            {"type": "response.output_text.delta", **at, "delta": self.says},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": done},
        ]

    def _completions(self, question: dict[str, Any]) -> Any:
        head = {"id": "c1", "created": 1, "model": "stub"}
        usage = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
        message = {"role": "assistant", "content": self.says}
        if not question.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
        chunk = {**head, "object": "chat.completion.chunk"}
        return [
            {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage},
        ]

    def _google(self, path: str) -> Any:
        content = {"role": "model", "parts": [{"text": self.says}]}
        usage = {"promptTokenCount": 5, "candidatesTokenCount": 5, "totalTokenCount": 10}
        candidate = {"content": content, "finishReason": "STOP", "index": 0}
        answer = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "stub"}
        return [answer] if "stream" in path else answer


@contextmanager
def serve_model(says: str) -> Iterator[Model]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            self._send("application/json", json.dumps({"object": "list", "data": [{"id": "stub", "object": "model"}]}))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode("utf-8")
            model.asked.append(body)
            answer = model.answer(self.path.split("?")[0], json.loads(body or "{}"))
            if isinstance(answer, dict):
                self._send("application/json", json.dumps(answer))
                return
            named = [(f"event: {one['type']}\n" if "type" in one else "", json.dumps(one)) for one in answer]
            self._send("text/event-stream", "".join(f"{name}data: {one}\n\n" for name, one in named))

        def _send(self, kind: str, text: str) -> None:
            data = text.encode("utf-8")
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        model = Model(says, f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield model
        finally:
            server.shutdown()
            thread.join()
