"""Rows: traces as tokens with a loss mask, and the proof that each one teaches what it should.

Every row is proved before the first step: exactly one BOS, the stop token trained, the prompt masked, reasoning *and*
answer inside the window, and at least one supervised token. A row that fails is an error that names it; a row that is
only too long is dropped and listed where the recipe says `over_length: drop`.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from workings.config.data import DataConfig
from workings.data.traces import Trace, completion_text
from workings.errors import RequestError
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer
from workings.record.canonical import line
from workings.record.redact import cleaned

_CHUNK = 1024
"""Traces that are encoded at a time: enough for all cores, little enough for memory."""


@dataclass(frozen=True, eq=False)
class Row:
    """One trace as the model sees it."""

    id: str
    """The trace's id."""
    tokens: np.ndarray
    """int32 ``[S]``: prompt, completion and stop token."""
    loss_mask: np.ndarray
    """uint8 ``[S]``: 1 where the token is learned, 0 on the prompt."""
    prompt_digest: str
    """`prompt_digest` of the trace's question, by which a verifier finds questions that were also trained on."""

    @property
    def supervised_tokens(self) -> int:
        """Number of tokens that are learned."""
        return int(self.loss_mask.sum())

    @property
    def digest(self) -> str:
        """SHA-256, as hex, of the tokens (int32, little-endian) followed by the mask (one byte each)."""
        return hashlib.sha256(self.tokens.astype("<i4").tobytes() + self.loss_mask.tobytes()).hexdigest()


@dataclass(frozen=True)
class Dropped:
    """A trace that gives no row, and why."""

    id: str
    tokens: int
    reason: str


@dataclass(frozen=True)
class RowSet:
    """All rows of a data set, proved."""

    rows: Sequence[Row]
    dropped: tuple[Dropped, ...]
    pad_id: int
    """Fills what a batch does not use."""
    max_length: int
    """Longest row allowed, in tokens."""

    @cached_property
    def ids(self) -> Sequence[str]:
        """The rows' ids, in their order."""
        return [row.id for row in self.rows]

    @cached_property
    def lengths(self) -> np.ndarray:
        """int64 ``[rows]``: tokens of each row."""
        return np.array([len(row.tokens) for row in self.rows], np.int64)

    @property
    def masks(self) -> np.ndarray:
        """uint8 ``[tokens of all rows]``: `Row.loss_mask` one behind the other; put together anew at each call."""
        none = np.zeros(0, np.uint8)  # a set may be empty
        return np.concatenate([none, *(row.loss_mask for row in self.rows)])

    @property
    def tokens(self) -> np.ndarray:
        """int32 ``[tokens of all rows]``: `Row.tokens` one behind the other; put together anew at each call."""
        none = np.zeros(0, np.int32)
        return np.concatenate([none, *(row.tokens for row in self.rows)])

    @property
    def _starts(self) -> np.ndarray:
        """int64 ``[rows]``: where each row starts in `tokens` and `masks`."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def shared_prefix(self) -> int:
        """Positions that begin every row alike and predict nothing that is learned.

        A chat template's first tokens, or an instruction that stands before every question.
        """
        if not self.rows:
            return 0
        tokens, masks, first = self.tokens, self.masks, self._starts
        # The last position of the shortest row predicts nothing, so `place + 1` below is inside every row.
        most = int(self.lengths.min()) - 1
        # Position `place` predicts token `place + 1`. `tokens[place]` is the first row's.
        return next((place for place in range(most) if masks[first + place + 1].any()
                     or (tokens[first + place] != tokens[place]).any()), most)

    @cached_property
    def supervised(self) -> np.ndarray:
        """int64 ``[rows]``: positions of each row that predict a token that is learned; nothing predicts the first."""
        masks, first = self.masks, self._starts
        # `reduceat` sums from each start to the next; no row is empty, because each has a stop token.
        return np.add.reduceat(masks, first, dtype=np.int64) - masks[first]

    @property
    def total_tokens(self) -> int:
        """Tokens of all rows, without padding."""
        return int(self.lengths.sum())

    @property
    def supervised_tokens(self) -> int:
        """Tokens that are learned in one epoch."""
        return int(self.masks.sum(dtype=np.int64))

    @property
    def index(self) -> list[dict[str, Any]]:
        """The run's row index: one record a trace, kept or dropped."""
        kept = [{"id": row.id, "status": "kept", "digest": row.digest, "tokens": len(row.tokens),
                 "supervised_tokens": row.supervised_tokens, "prompt_digest": row.prompt_digest} for row in self.rows]
        return kept + [{"id": row.id, "status": "dropped", "reason": row.reason, "tokens": row.tokens}
                       for row in self.dropped]

    @property
    def index_bytes(self) -> bytes | memoryview:
        """The index as a run keeps it: canonical JSON lines, cleaned as the recorder cleans all that it writes."""
        text: str = cleaned("".join(line(row).decode() for row in self.index))
        return text.encode()

    @cached_property
    def digest(self) -> str:
        """SHA-256, as hex, over ids and digests of the rows, sorted by id: the same for any order of the file."""
        return index_digest((row.id, row.digest) for row in self.rows)


def index_digest(digests: Iterable[tuple[str, str]]) -> str:
    """SHA-256, as hex, over ids and digests of rows or prompts, sorted: the same for any order of their file."""
    # A run's order comes from ids and not from the file, so a file in another order is the same data.
    return hashlib.sha256("".join(sorted(f"{name} {digest}\n" for name, digest in digests)).encode()).hexdigest()


def prompt_digest(prompt: str) -> str:
    """SHA-256, as hex, of a question in lower case with single spaces: equal for questions that only look different."""
    return hashlib.sha256(" ".join(prompt.split()).casefold().encode()).hexdigest()


def build_rows(traces: Sequence[Trace], tokenizer: Tokenizer, template: ChatTemplate,
               data_config: DataConfig) -> RowSet:
    """Turn traces into proved rows, in the traces' order.

    Raises:
        RequestError: naming the trace, when something that must hold does not; when ids repeat; when no row is left.
    """
    rows: list[Row] = []
    dropped: list[Dropped] = []
    limit, over_length = data_config.max_length, data_config.over_length
    for row in _encoded(traces, tokenizer, template, data_config.reasoning):
        if len(row.tokens) <= limit:
            rows.append(row)
            continue
        reason = f"{len(row.tokens)} tokens, and data.max_length is {limit}"
        # Never cut: a shortened row would teach reasoning without its answer, and never the stop token.
        if over_length == "error":
            raise RequestError(f"trace {row.id}: {reason}", "reasoning and answer inside the window",
                               f"data.max_length={len(row.tokens)} or data.over_length=drop")
        dropped.append(Dropped(row.id, len(row.tokens), reason))
    _refuse_repeated_ids(rows)
    if not rows:
        raise RequestError(f"{len(dropped)} traces, none of which gives a row", "at least one row",
                           "a larger data.max_length" if dropped else "a file with traces")
    return RowSet(tuple(rows), tuple(dropped), tokenizer.pad_id, limit)


def row_problems(traces: Sequence[Trace], tokenizer: Tokenizer, template: ChatTemplate,
                 data_config: DataConfig) -> Iterator[tuple[str, str]]:
    """(id, reason) of every trace that `build_rows` would refuse or drop; looks at each of them."""
    limit = data_config.max_length
    for trace in traces:
        try:
            # One trace at a time, so that an error is about this trace and the next is still looked at. `build_rows`
            # encodes many at once and is faster, and stops at the first error.
            row = next(_encoded([trace], tokenizer, template, data_config.reasoning))
        except RequestError as error:
            yield trace.id, error.given.removeprefix(f"trace {trace.id}: ")
            continue
        if len(row.tokens) > limit:
            yield trace.id, f"{len(row.tokens)} tokens, and data.max_length is {limit}"


def _encoded(traces: Sequence[Trace], tokenizer: Tokenizer, template: ChatTemplate, reasoning: str) -> Iterator[Row]:
    remaining = iter(traces)
    while chunk := list(islice(remaining, _CHUNK)):
        texts = [_texts(trace, template, reasoning) for trace in chunk]
        # Prompt and completion apart: encoded as one text, tokens could merge across the border, and generation, which
        # starts behind the prompt's tokens, would never see such a token.
        prompts = tokenizer.encode_batch([prompt for prompt, _ in texts])
        completions = tokenizer.encode_batch([completion for _, completion in texts])
        for trace, ids, learned in zip(chunk, prompts, completions, strict=True):
            # After encoding, because `encode` adds no special token and the template may or may not write BOS itself.
            before = template.with_bos(ids)
            _prove(trace, before, learned, tokenizer, template, reasoning)
            mask = np.zeros(len(before) + len(learned), np.uint8)
            mask[len(before):] = 1
            yield Row(trace.id, np.array(before + learned, np.int32), mask, prompt_digest(trace.prompt))


def _texts(trace: Trace, template: ChatTemplate, reasoning: str) -> tuple[str, str]:
    completion = completion_text(trace, reasoning)
    try:
        return (template.prompt_text(trace.prompt, trace.history),
                template.completion_text(trace.prompt, completion, trace.history))
    except RequestError as error:
        raise RequestError(f"trace {trace.id}: {error.given}", error.expected, error.try_next) from None


def _prove(trace: Trace, before: list[int], learned: list[int], tokenizer: Tokenizer, template: ChatTemplate,
           reasoning: str) -> None:
    """Check what must hold for a row; see the module's text. The reasons are what a person reads."""
    bos, stop = template.bos_id, template.stop_ids[0]
    # First, because a forged turn also fails the checks below, with reasons that would mislead.
    _refuse_forged_turns(trace, before, learned, tokenizer, template, reasoning)
    if bos is not None and (before[0] != bos or before.count(bos) != 1):
        raise _unproved(trace, f"{before.count(bos)} BOS tokens in the prompt", "exactly one, at the start")
    if not learned:
        raise _unproved(trace, "no supervised token", "at least one")
    if learned[-1] != stop or learned.count(stop) != 1:
        raise _unproved(trace, f"the last learned token is {tokenizer.token(learned[-1])}",
                        f"the stop token {tokenizer.token(stop)}, once, at the end")
    # A tokenizer that does not know a character may drop it; only decoding shows that. White space is left out of the
    # comparison, because some decoders add or take a space at a border.
    text = tokenizer.decode(learned)
    needed = [trace.answer] if reasoning == "answer_only" else [*trace.steps, trace.answer]
    for part in needed:
        if "".join(part.split()) not in "".join(text.split()):
            raise _unproved(trace, f"the learned tokens read {text!r} and do not hold {part!r}",
                            "a tokenizer that gives back what it was given")


def _refuse_forged_turns(trace: Trace, before: list[int], learned: list[int], tokenizer: Tokenizer,
                         template: ChatTemplate, reasoning: str) -> None:
    # Counted as ids and not searched for as text: only what the tokenizer takes for a control token does harm.
    controls = tokenizer.control_ids
    expected = template.control_counts(tuple(role for role, _ in trace.history), reasoning == "think")
    if (sum(i in controls for i in before), sum(i in controls for i in learned)) == expected:
        return
    own = [trace.prompt, *trace.steps, trace.answer, *(text for _, text in trace.history)]
    # Looked for only now: a vocabulary can hold thousands of control tokens, and nearly every row passes.
    found = [token for token in tokenizer.control_tokens if any(token in text for text in own)]
    raise _unproved(trace, f"control tokens in its text: {', '.join(found) or 'not found one by one'}",
                    "text that cannot end or forge a turn")


def _unproved(trace: Trace, given: str, expected: str) -> RequestError:
    return RequestError(f"trace {trace.id}: {given}", expected,
                        "workings data preview RECIPE shows the row as the model will see it")


def _refuse_repeated_ids(rows: Sequence[Row]) -> None:
    seen: set[str] = set()
    for row in rows:
        if row.id in seen:
            raise RequestError(f"trace id {row.id!r} twice", "ids that are unique: they decide the order of rows",
                               "workings data check --fix")
        seen.add(row.id)
