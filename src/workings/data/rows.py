r"""Rows: tokens with a loss mask, each checked to teach what it should (`workings.data.encode`).

    tokens      <bos> <start_of_turn> user … model \n  7 2 <end_of_turn>
    loss_mask     0         0          0   …   0    0  1 1       1

A row longer than `data.max_length` is an error that names it. With `data.over_length: drop` it is left out and listed.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from workings.config.data import DataConfig
from workings.data.encode import Encoded, Example, encoded
from workings.data.row_fields import Labelled
from workings.data.traces import Trace, completion_text, split_completion
from workings.errors import RequestError
from workings.models.chat import CHANNEL, THOUGHT_END, ChatTemplate
from workings.models.tokenizer import Tokenizer
from workings.models.turns import Asked
from workings.record.redact import cleaned

Entry = TypeVar("Entry", bound=Labelled)

_ONES = re.compile(rb"\x01+")


@dataclass(frozen=True, eq=False)
class Row:
    """One prompt and completion, as the model sees it."""

    id: str
    """The trace's id; of a pair `workings.data.pair_rows.row_id`."""
    tokens: np.ndarray
    """int32 ``[S]``: prompt, completion and stop token."""
    loss_mask: np.ndarray
    """uint8 ``[S]``: 1 for learned tokens, 0 for the prompt and other speakers."""
    prompt_digest: str
    """`prompt_digest` of the question, by which a verifier finds questions that were also trained on."""
    earlier_prompt_digests: tuple[str, ...] = ()
    """Digests of the earlier questions, if their answers are learned as well (`data.learn: all`)."""

    @property
    def learned_turns(self) -> list[tuple[int, int]]:
        """Positions of the assistant's learned turns, each with its stop token: (start, end) in ``tokens``."""
        # Another speaker comes between two turns, so each turn is one run of ones.
        return [ones.span() for ones in _ONES.finditer(self.loss_mask.tobytes())]

    @property
    def is_text(self) -> bool:
        """Whether every token but the first is learned: a raw text."""
        return self.supervised_tokens == len(self.tokens) - 1

    @property
    def supervised_tokens(self) -> int:
        """Number of tokens that are learned."""
        return int(np.count_nonzero(self.loss_mask))

    @property
    def digest(self) -> str:
        """SHA-256, as hex, of the tokens (int32, little-endian) followed by the mask (one byte each)."""
        return hashlib.sha256(self.tokens.astype("<i4").tobytes() + self.loss_mask.tobytes()).hexdigest()


@dataclass(frozen=True)
class Dropped:
    """A trace, or a completion of a pair, that gives no row, and why."""

    id: str
    tokens: int
    reason: str


@dataclass(frozen=True)
class RowSet:
    """All rows of a data set, proved."""

    rows: Sequence[Row]
    dropped: tuple[Dropped, ...]
    pad_id: int
    """Fills unused places of a batch."""
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

    @cached_property
    def shared_prefix(self) -> int:
        """Positions that begin every row alike and predict nothing that is learned.

        A chat template's first tokens, or an instruction before every question.
        """
        # The last position of the shortest row predicts nothing, so position + 1 below is inside every row.
        shared = int(self.lengths.min()) - 1 if self.rows else 0
        for row in self.rows:
            ends = (row.tokens[:shared] != self.rows[0].tokens[:shared]) | (row.loss_mask[1:shared + 1] != 0)
            shared = int(ends.argmax()) if ends.any() else shared
        return shared

    @cached_property
    def supervised(self) -> np.ndarray:
        """int64 ``[rows]``: positions of each row that predict a token that is learned; nothing predicts the first."""
        return np.array([np.count_nonzero(row.loss_mask[1:]) for row in self.rows], np.int64)

    @property
    def learned_positions(self) -> dict[str, int]:
        """`supervised` by the rows' ids."""
        return dict(zip(self.ids, self.supervised.tolist(), strict=True))

    @property
    def whole(self) -> int:
        """Raw texts: rows in which every token but the first is learned."""
        return int((self.supervised == self.lengths - 1).sum())

    @property
    def total_tokens(self) -> int:
        """Tokens of all rows, without padding."""
        return int(self.lengths.sum())

    @property
    def supervised_tokens(self) -> int:
        """Tokens that are learned in one epoch."""
        return sum(row.supervised_tokens for row in self.rows)

    @property
    def learned_turns(self) -> int:
        """Turns of the assistant that are learned in one epoch."""
        return sum(len(row.learned_turns) for row in self.rows)

    @property
    def index(self) -> list[dict[str, Any]]:
        """The run's row index: one record for each row, kept or dropped.

        A row without `learned_turns` learns one turn, its last `supervised_tokens` tokens.
        """
        return list(self._index_entries())

    def _index_entries(self) -> Iterator[dict[str, Any]]:
        for row in self.rows:
            entry = {"id": row.id, "status": "kept", "digest": row.digest, "tokens": len(row.tokens),
                     "supervised_tokens": row.supervised_tokens, "prompt_digest": row.prompt_digest}
            learned_turns = row.learned_turns
            # Left out for one turn, for compatibility with earlier indexes.
            if len(learned_turns) > 1:
                entry |= {"learned_turns": [list(turn) for turn in learned_turns],
                          "earlier_prompt_digests": list(row.earlier_prompt_digests)}
            yield entry
        for dropped in self.dropped:
            yield {"id": dropped.id, "status": "dropped", "reason": dropped.reason, "tokens": dropped.tokens}

    @property
    def index_bytes(self) -> bytes:
        """The index as a run keeps it: canonical JSON lines, cleaned as the recorder cleans all that it writes."""
        # The index has no floats, so sorted JSON is canonical, and far faster than `canonical.dumps`.
        encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
        text = "".join(f"{encode(entry)}\n" for entry in self._index_entries())
        # Only the ids are texts of the user.
        ids = "\n".join(row.id for row in (*self.rows, *self.dropped))
        return (text if cleaned(ids) == ids else str(cleaned(text))).encode()

    @cached_property
    def digest(self) -> str:
        """SHA-256, as hex, over ids and digests of the rows, sorted by id: the same for any order of the file."""
        return index_digest((row.id, row.digest) for row in self.rows)


def index_digest(digests: Iterable[tuple[str, str]]) -> str:
    """SHA-256, as hex, over ids and digests of rows or prompts, sorted: the same for any order of their file."""
    return hashlib.sha256("".join(sorted(f"{name} {digest}\n" for name, digest in digests)).encode()).hexdigest()


def prompt_digest(prompt: str) -> str:
    """SHA-256, as hex, of a question in lower case with single spaces: equal for questions that only look different."""
    return hashlib.sha256(" ".join(prompt.split()).casefold().encode()).hexdigest()


def learned_questions(rows: Iterable[Mapping[str, Any]]) -> set[str | None]:
    """`prompt_digest` of every question whose answer the rows or prompts of a run's index teach.

    Those of rows that were dropped are left out; None is among them where a row does not say its own.
    """
    return {digest for row in rows if row.get("status", "kept") == "kept" for digest in question_digests(row)}


def question_digests(row: Mapping[str, Any]) -> list[str | None]:
    """Digests of every question whose answer a row teaches, the last one first; None if the row has none."""
    earlier = row.get("earlier_prompt_digests", [])
    digests = [row.get("prompt_digest"), *(earlier if isinstance(earlier, list) else [None])]
    return [digest if isinstance(digest, str) and digest else None for digest in digests]


def build_rows(traces: Sequence[Trace], tokenizer: Tokenizer, template: ChatTemplate,
               data_config: DataConfig) -> RowSet:
    """Turn traces into proved rows, in the traces' order.

    Raises `RequestError` naming the trace for what must not be learned from, and as `kept_rows`.
    """
    refuse_other_template(template, data_config)
    examples = (_example(trace, data_config) for trace in traces)
    whole_rows = map(row_of, encoded(examples, tokenizer, template))
    rows = (part for row in whole_rows for part in _parts(row, data_config))
    return kept_rows(((row.id, [row]) for row in rows), "trace", len(traces), data_config, tokenizer.pad_id,
                     "reasoning and answer inside the window",
                     " or, for raw texts, data.over_length=split" if data_config.template == "plain" else "")


def kept_rows(entries: Iterable[tuple[str, Sequence[Row]]], kind: str, count: int, data_config: DataConfig, pad_id: int,
              expected: str, more: str = "") -> RowSet:
    """The rows of all entries without those that are too long; an entry is kept whole or dropped whole.

    ``entries`` are ids with rows, ``count`` of them, each a ``kind`` (`trace`, `pair` or `verdict`). Where a long row
    is an error, the message says what was ``expected`` and what ``more`` could be typed.

    Raises `RequestError`: an id repeats, no row is left, or rows are too long and not to be dropped.
    """
    rows: list[Row] = []
    dropped: list[Dropped] = []
    too_long: list[Dropped] = []
    seen: set[str] = set()
    limit = data_config.max_length
    for name, entry_rows in entries:
        if name in seen:
            raise RequestError(f"the {kind} id {name!r} occurs twice",
                               "ids that are unique: they decide the order of rows", "workings data check --fix")
        seen.add(name)
        longest = max(len(row.tokens) for row in entry_rows)
        # Never cut: a shortened row would teach reasoning without its answer, and never the stop token.
        if longest <= limit:
            rows += entry_rows
            continue
        is_pair = len(entry_rows) > 1
        reason = f"{longest} tokens{' in its longer row' * is_pair}, and data.max_length is {limit}"
        too_long.append(Dropped(name, longest, reason))
        # The rows of a pair have their own ids.
        dropped += [Dropped(row.id, len(row.tokens), f"its {kind} has {reason}") for row in entry_rows
                    ] if is_pair else too_long[-1:]
    if too_long and data_config.over_length != "drop":
        first = max(too_long, key=lambda entry: entry.tokens)
        others = f"; {len(too_long):,} of {count:,} are too long, and this is the longest" if len(too_long) > 1 else ""
        raise RequestError(f"{kind} {first.id}: {first.reason}{others}", expected,
                           f"data.max_length={first.tokens} or data.over_length=drop{more}")
    if not rows:
        raise RequestError(f"no {kind} of {count} gives rows", f"at least one {kind}",
                           "a larger data.max_length" if dropped else f"a file with {kind}s")
    return RowSet(tuple(rows), tuple(dropped), pad_id, limit)


PART = "/part-"
"""Before the number of a row in the id of a part of a raw text."""


def example_id(row_id: str) -> str:
    """The id of the raw text that a row is a part of; any other id as it is."""
    text, mark, number = row_id.rpartition(PART)
    return text if mark and number.isdecimal() else row_id


def _parts(row: Row, config: DataConfig) -> Iterator[Row]:
    """A row, or those of a long raw text that is split.

    A part begins with the last token of the one before, so that each token but the first is learned.
    """
    limit = config.max_length
    if config.over_length != "split" or len(row.tokens) <= limit or not row.is_text:
        yield row
        return
    for number, start in enumerate(range(0, len(row.tokens) - 1, limit - 1), start=1):
        mask = row.loss_mask[start:start + limit].copy()
        mask[0] = 0
        yield Row(f"{row.id}{PART}{number}", row.tokens[start:start + limit], mask, row.prompt_digest)


def row_problems(entries: Iterable[Entry], tokenizer: Tokenizer, template: ChatTemplate, data_config: DataConfig,
                 build: Callable[..., object] = build_rows, kind: str = "trace") -> Iterator[tuple[str, str]]:
    """(id, reason) of every entry, a ``kind``, that ``build`` would refuse or drop."""
    strict = data_config if data_config.over_length == "split" else data_config.model_copy(
        update={"over_length": "error"})
    for entry in entries:
        try:
            # One at a time: all at once would stop at the first error.
            build([entry], tokenizer, template, strict)
        except RequestError as error:
            yield entry.id, error.given.removeprefix(f"{kind} {entry.id}").lstrip(": ")


def row_of(encoded: Encoded) -> Row:
    """The row of an example's tokens: the completion learned, and of the prompt the turns that are to be learned."""
    mask = np.zeros(len(encoded.prompt) + len(encoded.completion), np.uint8)
    # Nothing predicts the first token of a raw text for a model without BOS.
    for start, end in (*encoded.earlier, (max(len(encoded.prompt), 1), len(mask))):
        mask[start:end] = 1
    # The user's last text before each earlier learned turn; empty if the assistant began.
    questions, last_question = [], ""
    for turn in encoded.example.asked.turns if encoded.earlier else ():
        if turn.role == "user":
            last_question = turn.text
        elif turn.role == "assistant" and turn.learned:
            questions.append(last_question)
    # A raw text has no question; its digest identifies it.
    prompt = encoded.example.prompt or encoded.example.completion
    return Row(encoded.example.id, np.array(encoded.prompt + encoded.completion, np.int32), mask,
               prompt_digest(prompt), tuple(map(prompt_digest, questions)))


def _example(trace: Trace, config: DataConfig) -> Example:
    reasoning = config.reasoning
    if trace.is_text:
        return _raw_text(trace, config)
    parts = (trace.answer,) if reasoning == "answer_only" else (*trace.steps, trace.answer)
    completion = completion_text(trace, reasoning)
    if reasoning != "answer_only" and (marks := _REASONING_MARKS.findall("\n".join(parts))):
        raise RequestError(
            f"trace {trace.id} has {marks[0]} in its text and steps too",
            f"plain text in steps and answer, around which data.reasoning: {reasoning} writes the marks",
            "workings data import, which splits completions, or data.reasoning=answer_only")
    if config.learn == "all":
        _refuse_another_form(trace, reasoning)
    return Example(id=trace.id, name=f"trace {trace.id}", prompt=trace.prompt,
                   asked=Asked.of(trace.prompt, trace.history, trace.tool_turns, trace.tools), calls=trace.calls,
                   learns_earlier=config.learn == "all", completion=completion, parts=parts,
                   thinks=reasoning in ("think", CHANNEL))


def _raw_text(trace: Trace, config: DataConfig) -> Example:
    """A text without a question: BOS if the model has one, the text and the end of text, without turns."""
    if config.template != "plain" or config.reasoning != "answer_only":
        raise RequestError(f"trace {trace.id} is a raw text, and the recipe has data.template: {config.template} and "
                           f"data.reasoning: {config.reasoning}",
                           "plain and answer_only: a raw text has neither turns nor steps",
                           "data.template=plain data.reasoning=answer_only")
    return Example(id=trace.id, name=f"trace {trace.id}", prompt="", asked=Asked(()), completion=trace.answer,
                   parts=(trace.answer,), thinks=False)


# To its own tokenizer Gemma's channel is a control token, which is refused.
_REASONING_MARKS = re.compile(r"</?(?:think|reasoning)>")


def _refuse_another_form(trace: Trace, reasoning: str) -> None:
    """Raise `RequestError` where an earlier turn is not of the form that the last one is rendered in.

    Earlier turns are learned as written in the file: a model that is taught both forms writes either.
    """
    earlier_answers = [turn for turn in (*trace.history, *trace.tool_turns) if turn.role == "assistant"]
    for number, turn in enumerate(earlier_answers, start=1):
        # Tool calls have another form, and marked turns are only read.
        if turn.has_calls or not turn.learned:
            continue
        text = turn.text
        location = f"trace {trace.id}: turn {number} of the assistant, of {len(earlier_answers) + 1},"
        if not text.strip():
            raise RequestError(f"{location} is empty", "text in every turn that is learned", "data.learn=last")
        if reasoning == "answer_only" and any(mark in text for mark in ("</think>", "</reasoning>", THOUGHT_END)):
            raise RequestError(f"{location} holds reasoning, and data.reasoning is answer_only",
                               "every turn that is learned in one form", "data.learn=last")
        if reasoning != "answer_only" and split_completion(text.strip(), reasoning) is None:
            raise RequestError(f"{location} is not written as data.reasoning: {reasoning} writes the last one",
                               "every turn that is learned in one form",
                               "data.reasoning=answer_only, or data.learn=last")


def refuse_other_template(template: ChatTemplate, config: DataConfig) -> None:
    """Raise `RequestError` where Gemma 4's thinking is on in the template and off in the recipe, or the other way."""
    if template.thinking != (config.reasoning == CHANNEL):
        raise RequestError(f"data.reasoning is {config.reasoning}, but the chat template has Gemma 4's thinking "
                           f"{'on' if template.thinking else 'off'}", "a template made for this recipe",
                           f"ChatTemplate.for_config(template, tokenizer, reasoning={config.reasoning!r})")
