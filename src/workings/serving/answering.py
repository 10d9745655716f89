"""Answers requests of the server with a model: completions, stop texts, log probabilities."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock

from workings.engines.base import Completion, StreamingEngine
from workings.engines.session import ModelSession
from workings.evaluation.likelihoods import continuation_log_probs, likeliest
from workings.evaluation.run import complete, sample_seed
from workings.models.tokenizer import Tokenizer
from workings.serving.requests import ChatRequest, TextRequest


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One completion for a client."""

    text: str
    finish_reason: str
    """``stop`` or ``length``."""
    prompt_tokens: int
    tokens: tuple[int, ...]
    log_probs: tuple[float | None, ...] = ()
    """Natural log probability of each token, if requested; None for the first token of an echoed prompt."""
    likeliest: tuple[tuple[int, float], ...] = ()
    """With an echoed prompt: the most likely token in the place of each but the first, and its log probability."""
    echoed: int = 0
    """Number of the tokens that are the prompt's."""


class Pieces:
    """Converts tokens, one by one, to pieces of text that together are the text of all tokens."""

    def __init__(self, tokenizer: Tokenizer, show: Callable[[str], None]) -> None:
        self._tokenizer, self._show = tokenizer, show
        self._tokens: list[int] = []
        self._shown = ""

    def add(self, token: int) -> None:
        """Add a token, and show its text once its last character is complete."""
        self._tokens.append(token)
        # A character may be several tokens; the first ones alone decode to this character.
        self.show_up_to(self._tokenizer.decode(self._tokens).rstrip("\N{REPLACEMENT CHARACTER}"))

    def show_up_to(self, text: str) -> None:
        """Show what is new in the text of all tokens so far."""
        if len(text) > len(self._shown):
            self._show(text[len(self._shown):])
            self._shown = text


class Answerer:
    """Answers requests with one model, one request at a time."""

    def __init__(self, session: ModelSession) -> None:
        self._session = session
        self._lock = Lock()

    def prompts(self, request: ChatRequest | TextRequest) -> list[list[int]]:
        """Token ids of each prompt of a request. Raises `RequestError` for turns that the template does not have."""
        template, tokenizer = self._session.template, self._session.tokenizer
        if isinstance(request, ChatRequest):
            *history, (_, question) = [message.turn for message in request.messages]
            return [template.prompt_ids(question, history)]
        return [template.with_bos(tokenizer.encode(prompt)) if isinstance(prompt, str) else prompt
                for prompt in request.prompts]

    def answers(self, request: ChatRequest | TextRequest, tell: Callable[[str], None] | None = None) -> list[Answer]:
        """``n`` answers to each prompt, those to the same prompt together.

        ``tell`` receives the text of a single greedy answer piece by piece; other answers come as a whole. Raises
        `RequestError` for what the engine or the template cannot do.
        """
        asked = [prompt for prompt in self.prompts(request) for _ in range(request.n)]
        seed = secrets.randbelow(2**32) if request.seed is None else request.seed
        seeds = [sample_seed(seed, "request", index) for index in range(len(asked))]
        session, engine = self._session, self._session.engine
        # Not with a stop text, which could take back a piece.
        can_stream = len(asked) == 1 and request.temperature == 0 and not request.stop and not request.echo
        with self._lock:
            if tell and can_stream and isinstance(engine, StreamingEngine):
                pieces = Pieces(session.tokenizer, tell)
                completions: Sequence[Completion] = [engine.stream(
                    session.state, asked[0], max_new_tokens=request.longest, stop_ids=session.template.stop_ids,
                    tell=pieces.add)]
                pieces.show_up_to(session.tokenizer.decode(completions[0].tokens))
            else:
                completions = complete(session, asked, seeds, temperature=request.temperature,
                                       max_new_tokens=request.longest)
            return [self._answer(prompt, completion, request)
                    for prompt, completion in zip(asked, completions, strict=True)]

    def _answer(self, prompt: list[int], completion: Completion, request: ChatRequest | TextRequest) -> Answer:
        tokens, decode = list(completion.tokens), self._session.tokenizer.decode
        text, reason = decode(tokens), str(completion.finish_reason)
        stops_at = [text.find(stop) for stop in request.stop if stop and stop in text]
        if stops_at:
            text, reason = text[:min(stops_at)], "stop"
            fewest = next(count for count in range(len(tokens) + 1) if decode(tokens[:count]).startswith(text))
            tokens = tokens[:fewest]
        if request.echo:
            return self._echo(prompt, tokens, text, reason, request)
        log_probs: tuple[float, ...] = ()
        if request.wants_log_probs:
            log_probs = tuple(completion.log_probs[:len(tokens)])
            if not log_probs:
                log_probs = continuation_log_probs(self._session, [(prompt, tokens)])[0]
        return Answer(text=text, finish_reason=reason, prompt_tokens=len(prompt), tokens=tuple(tokens),
                      log_probs=log_probs)

    def _echo(self, prompt: list[int], tokens: list[int], text: str, reason: str,
              request: ChatRequest | TextRequest) -> Answer:
        """An answer that begins with the prompt, for clients that ask how likely a given text is."""
        whole = [*prompt, *tokens]
        answer = Answer(text=self._session.tokenizer.decode(prompt) + text, finish_reason=reason,
                        prompt_tokens=len(prompt), tokens=tuple(whole), echoed=len(prompt))
        if not request.wants_log_probs:
            return answer
        pairs = [(whole[:1], whole[1:])]
        return replace(answer, log_probs=(None, *continuation_log_probs(self._session, pairs)[0]),
                       likeliest=tuple(likeliest(self._session, pairs)[0]))

    def token_texts(self, tokens: Sequence[int]) -> list[str]:
        """The text of each single token."""
        return [self._session.tokenizer.decode([token]) for token in tokens]
