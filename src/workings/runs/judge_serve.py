"""Serves a model of this machine to judge: OpenAI's chat completions, greedy, one request at a time, this host only."""

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

from workings.engines.session import ModelSession

MOST_TOKENS = 4096
"""Longest reply, in tokens."""
_MOST_BYTES = 1 << 24


def judge_server(session: ModelSession, name: str, port: int) -> ThreadingHTTPServer:
    """A server that is not started yet. ``port`` 0 takes a free one; `server_port` says which."""
    lock = Lock()

    def answer(question: str, most: int) -> str:
        # An engine's state takes one call at a time; requests wait for each other.
        with lock:
            completion = session.engine.generate(
                session.state, [session.template.prompt_ids(question)], max_new_tokens=min(most, MOST_TOKENS),
                stop_ids=session.template.stop_ids)[0]
        return session.tokenizer.decode(completion.tokens)

    return ThreadingHTTPServer(("127.0.0.1", port), _handler(name, answer))


def _handler(name: str, answer: Callable[[str, int], str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            if not self.path.endswith("/chat/completions"):
                self._send(404, {"error": {"message": "only /v1/chat/completions is served"}})
                return
            try:
                length = int(self.headers.get("content-length", 0))
                if length > _MOST_BYTES:
                    raise ValueError("the request is too long")
                request = json.loads(self.rfile.read(length))
                messages = request["messages"]
                if len(messages) != 1 or messages[0]["role"] != "user" or request.get("temperature", 0) != 0:
                    raise ValueError("one user message at temperature 0 is answered")
                question, most = str(messages[0]["content"]), int(request.get("max_tokens", 64))
            except (ValueError, LookupError, TypeError) as error:
                self._send(400, {"error": {"message": f"{type(error).__name__}: {error}"}})
                return
            self._send(200, {"object": "chat.completion", "model": name, "choices": [{
                "index": 0, "finish_reason": "stop",
                "message": {"role": "assistant", "content": answer(question, most)}}]})

        def _send(self, code: int, value: dict[str, Any]) -> None:
            body = json.dumps(value).encode()
            self.send_response(code)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *unused: object) -> None:
            """Nothing: a judge is asked thousands of questions."""

    return Handler
