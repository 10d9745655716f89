"""Completions of a `ModelSession` for the server: one request at a time, with stop texts and log probabilities."""

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
    """One completion as a client receives it."""

    text: str
    finish_reason: str
    """``stop`` or ``length``."""
    prompt_tokens: int
    tokens: tuple[int, ...]
    log_probs: tuple[float | None, ...] = ()
    """Natural log probability of each token, where the request asks for them; None for a text's first token."""
    likeliest: tuple[tuple[int, float], ...] = ()
    """The most likely token in the place of each but the first, and its log probability, of an echoed prompt."""
    echoed: int = 0
    """How many of the tokens are the prompt's."""


class Pieces:
    """Converts single tokens to pieces of text; together the pieces are the text of all tokens."""

    def __init__(self, tokenizer: Tokenizer, show: Callable[[str], None]) -> None:
        self._tokenizer, self._show = tokenizer, show
        self._tokens: list[int] = []
        self._shown = ""

    def add(self, token: int) -> None:
        """Adds a token and shows its text once its characters are complete."""
        self._tokens.append(token)
        # A character may be several tokens; the first ones alone decode to this sign.
        self.show_up_to(self._tokenizer.decode(self._tokens).rstrip("\N{REPLACEMENT CHARACTER}"))

    def show_up_to(self, text: str) -> None:
        """Shows the rest of the text so far."""
        if len(text) > len(self._shown):
            self._show(text[len(self._shown):])
            # Decoded from all tokens each time: a token's text may depend on those before it (spaces, byte pairs).
            self._shown = text


class Answerer:
    """Answers requests with one model; an engine's state takes one call at a time, so requests wait for each other."""

    def __init__(self, session: ModelSession) -> None:
        self._session = session
        self._lock = Lock()

    def prompts(self, request: ChatRequest | TextRequest) -> list[list[int]]:
        """Token ids of every prompt of a request. Raises `RequestError`: turns that the template does not take."""
        template, tokenizer = self._session.template, self._session.tokenizer
        if isinstance(request, ChatRequest):
            *history, (_, question) = [message.turn for message in request.messages]
            return [template.prompt_ids(question, history)]
        return [template.with_bos(tokenizer.encode(prompt)) if isinstance(prompt, str) else prompt
                for prompt in request.prompts]

    def answers(self, request: ChatRequest | TextRequest, tell: Callable[[str], None] | None = None) -> list[Answer]:
        """``n`` answers to each prompt, those to one prompt together.

        ``tell`` receives the text of a single greedy answer piece by piece; of other answers nothing before the end.
        Raises `RequestError` for what the engine or the template does not do.
        """
        asked = [prompt for prompt in self.prompts(request) for _ in range(request.n)]
        seed = secrets.randbelow(2**32) if request.seed is None else request.seed
        seeds = [sample_seed(seed, "request", index) for index in range(len(asked))]
        session, engine = self._session, self._session.engine
        with self._lock:
            # A stop text could take back what was passed on.
            if tell and len(asked) == 1 and request.temperature == 0 and not (request.stop or request.echo) and (
                    isinstance(engine, StreamingEngine)):
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
        if ends := [found for stop in request.stop if stop and (found := text.find(stop)) >= 0]:
            text, reason = text[:min(ends)], "stop"
            # The shortest beginning of the tokens that holds the text.
            tokens = next(tokens[:count] for count in range(len(tokens) + 1)
                          if decode(tokens[:count]).startswith(text))
        log_probs: tuple[float | None, ...] = ()
        if request.echo:
            return self._echo(prompt, tokens, text, reason, request)
        if request.wants_log_probs:
            log_probs = (tuple(completion.log_probs[:len(tokens)])
                         or continuation_log_probs(self._session, [(prompt, tokens)])[0])
        return Answer(text=text, finish_reason=reason, prompt_tokens=len(prompt), tokens=tuple(tokens),
                      log_probs=log_probs)

    def _echo(self, prompt: list[int], tokens: list[int], text: str, reason: str,
              request: ChatRequest | TextRequest) -> Answer:
        """An answer that begins with its prompt, as programs ask that want to know how likely a given text is."""
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
