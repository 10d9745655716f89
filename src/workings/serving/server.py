"""The routes ``/v1/models``, ``/v1/chat/completions`` and ``/v1/completions``; every request needs the token."""

import hmac
import json
import secrets
import threading
import time
from collections.abc import Iterator
from itertools import accumulate
from queue import SimpleQueue
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse

from workings.engines.session import ModelSession
from workings.errors import RequestError, WorkingsError
from workings.serving.answering import Answer, Answerer
from workings.serving.requests import ChatRequest, TextRequest
from workings.ui.loopback import HOST, quiet_server


def make_app(session: ModelSession, name: str, *, token: str) -> FastAPI:
    """The application that answers, as the model ``name``, requests with ``Authorization: Bearer TOKEN``."""
    app = FastAPI(title="workings", docs_url=None, redoc_url=None, openapi_url=None)
    answerer, created = Answerer(session), int(time.time())

    @app.middleware("http")
    async def only_with_the_token(request: Request, call_next: Any) -> Response:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        # Another host is that of a web site whose name was pointed at this machine.
        is_here = request.url.hostname in (HOST, "localhost")
        if not is_here or not hmac.compare_digest(given.encode(), token.encode()):
            return problem(401, "the token that `workings serve` printed is missing: send it as the API key")
        return await call_next(request)

    @app.exception_handler(RequestValidationError)
    def not_understood(_: Request, error: RequestValidationError) -> JSONResponse:
        return problem(400, "; ".join(validation_text(one) for one in error.errors()))

    @app.exception_handler(WorkingsError)
    def refused(_: Request, error: WorkingsError) -> JSONResponse:
        return problem(400, str(error))

    @app.get("/v1/models")
    def models() -> dict[str, Any]:
        model = {"id": name, "object": "model", "created": created, "owned_by": "workings"}
        return {"object": "list", "data": [model]}

    @app.post("/v1/chat/completions")
    def chat(request: ChatRequest) -> Response:
        return reply(answerer, request, name)

    @app.post("/v1/completions")
    def text(request: TextRequest) -> Response:
        return reply(answerer, request, name)

    return app


def validation_text(error: Any) -> str:
    """Pydantic's description of a mistake, as the key and the reason."""
    where = ".".join(str(part) for part in error["loc"] if part != "body")
    reason = "this key is not supported" if error["type"] == "extra_forbidden" else error["msg"]
    return f"{where or 'the request'}: {reason}"


def problem(status: int, message: str) -> JSONResponse:
    """An error as OpenAI's clients read it."""
    return JSONResponse({"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}},
                        status_code=status)


def reply(answerer: Answerer, request: ChatRequest | TextRequest, name: str) -> Response:
    """The response to a request, as a whole or streamed."""
    if request.model != name:
        return problem(404, f"the model {request.model!r} is not here; this server answers as {name!r}")
    answerer.prompts(request)  # raises an error before a stream begins
    chat = isinstance(request, ChatRequest)
    head = {"id": f"{'chatcmpl' if chat else 'cmpl'}-{secrets.token_hex(12)}", "created": int(time.time()),
            "model": name}
    if request.stream:
        return StreamingResponse(events(answerer, request, head), media_type="text/event-stream")
    answers = answerer.answers(request)
    choices = []
    for index, answer in enumerate(answers):
        content = {"message": {"role": "assistant", "content": answer.text}} if chat else {"text": answer.text}
        choices.append({"index": index, "finish_reason": answer.finish_reason,
                        "logprobs": log_probs(answerer, request, answer), **content})
    return JSONResponse(head | {"object": "chat.completion" if chat else "text_completion", "choices": choices,
                                "usage": usage(answers, request)})


def log_probs(answerer: Answerer, request: ChatRequest | TextRequest, answer: Answer) -> dict[str, Any] | None:
    """Log probabilities in the format of the request's route; None if not requested."""
    if not request.wants_log_probs:
        return None
    texts = answerer.token_texts(answer.tokens)
    if isinstance(request, ChatRequest):
        return {"content": [{"token": text, "logprob": value, "bytes": list(text.encode()), "top_logprobs": []}
                            for text, value in zip(texts, answer.log_probs, strict=True)]}
    # For each token its own text and log probability, and those of the most likely token, if that is known.
    top: list[dict[str, float] | None] = []
    for index, (text, value) in enumerate(zip(texts, answer.log_probs, strict=True)):
        if value is None:  # the first token of an echoed prompt
            top.append(None)
            continue
        values = {text: value}
        if answer.likeliest:
            best, best_value = answer.likeliest[index - 1]  # it begins with the second token
            if best != answer.tokens[index]:
                values[answerer.token_texts([best])[0]] = best_value
        top.append(values)
    offsets = list(accumulate(map(len, texts), initial=0))[:-1]
    return {"tokens": texts, "token_logprobs": list(answer.log_probs), "text_offset": offsets, "top_logprobs": top}


def usage(answers: list[Answer], request: ChatRequest | TextRequest) -> dict[str, int]:
    """Number of tokens of a request; each prompt counts once."""
    prompt = sum(answer.prompt_tokens for answer in answers[::request.n])
    completion = sum(len(answer.tokens) - answer.echoed for answer in answers)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def events(answerer: Answerer, request: ChatRequest | TextRequest, head: dict[str, Any]) -> Iterator[str]:
    """Server-sent events of a streamed answer: pieces of text, why it ended, the number of tokens."""
    chat = isinstance(request, ChatRequest)
    head = head | {"object": "chat.completion.chunk" if chat else "text_completion"}
    pieces: SimpleQueue[str | None] = SimpleQueue()
    results: list[list[Answer] | WorkingsError] = []

    def work() -> None:
        try:
            results.append(answerer.answers(request, pieces.put))
        except WorkingsError as error:
            results.append(error)
        finally:
            pieces.put(None)  # there are no more

    def chunk(index: int, text: str | None, reason: str | None = None, values: Any = None) -> str:
        content: dict[str, Any] = {"text": text or ""}
        if chat:
            content = {"delta": {} if text is None else {"role": "assistant", "content": text}}
        return event(head | {"choices": [{"index": index, **content, "finish_reason": reason, "logprobs": values}]})

    threading.Thread(target=work, daemon=True).start()
    is_streamed = False
    while (piece := pieces.get()) is not None:
        is_streamed = True
        yield chunk(0, piece)
    result = results[0] if results else RequestError("the model failed", "an answer", "see the server's output")
    if isinstance(result, WorkingsError):
        yield event({"error": {"message": str(result), "type": "invalid_request_error"}})
    else:
        for index, answer in enumerate(result):
            values = log_probs(answerer, request, answer)
            if not is_streamed or values:
                yield chunk(index, "" if is_streamed else answer.text, values=values)
            yield chunk(index, None, answer.finish_reason)
        if request.stream_options and request.stream_options.get("include_usage"):
            yield event(head | {"choices": [], "usage": usage(result, request)})
    yield "data: [DONE]\n\n"


def event(value: dict[str, Any]) -> str:
    """One server-sent event."""
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"


def make_server(session: ModelSession, name: str, *, token: str) -> uvicorn.Server:
    """The server of `make_app`; ``run(sockets=[…])`` serves until it is stopped."""
    return quiet_server(make_app(session, name, token=token))
