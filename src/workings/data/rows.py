r"""Rows: tokens with a loss mask, each checked to teach what it should (`workings.data.encode`).

    tokens      <bos> <start_of_turn> user … model \n  7 2 <end_of_turn>
    loss_mask     0         0          0   …   0    0  1 1       1

`build_rows` turns traces into rows. `workings.data.pair_rows` does the same for preference pairs and verdicts.
A row longer than `data.max_length` is an error that names it. With `data.over_length: drop` it is left out and listed.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from workings.config.data import DataConfig
from workings.data.encode import Encoded, Example, encoded
from workings.data.row_fields import Labelled, no_garbage_collection
from workings.data.traces import Trace, completion_text, split_completion
from workings.errors import RequestError
from workings.models.chat import CHANNEL, THOUGHT_END, ChatTemplate
from workings.models.tokenizer import Tokenizer
from workings.models.turns import Asked
from workings.record.redact import cleaned

Entry = TypeVar("Entry", bound=Labelled)

PART = "/part-"
"""Before the number of a row in the id of a part of a raw text."""
_ONES = re.compile(rb"\x01+")
_REASONING_MARKS = re.compile(r"</?(?:think|reasoning)>")
_CHUNK = 1024
"""Entries that are checked at once."""


@dataclass(frozen=True, eq=False, slots=True)
class Row:
    """One prompt and completion, as the model sees it."""

    id: str
    """The trace's id; of a pair `workings.data.pair_rows.row_id`."""
    tokens: np.ndarray
    """int32 ``[S]``: prompt, completion and stop token."""
    loss_mask: np.ndarray
    """uint8 ``[S]``: 1 for learned tokens, 0 for the prompt and other speakers."""
    prompt_digest: str
    """`prompt_digest` of the question. A verifier compares it with those of evaluation items."""
    earlier_prompt_digests: tuple[str, ...] = ()
    """Digests of the earlier questions, if their answers are learned as well (`data.learn: all`)."""

    @property
    def learned_turns(self) -> list[tuple[int, int]]:
        """Positions of the assistant's learned turns, each with its stop token: (start, end) in ``tokens``."""
        # Another speaker comes between two turns, so each turn is one run of ones.
        return [ones.span() for ones in _ONES.finditer(self.loss_mask.tobytes())]

    @property
    def supervised_tokens(self) -> int:
        """Number of tokens that are learned."""
        return int(np.count_nonzero(self.loss_mask))

    @property
    def digest(self) -> str:
        """SHA-256, as hex, of the tokens (int32, little-endian) followed by the mask (one byte each)."""
        return hashlib.sha256(self.tokens.astype("<i4", copy=False).tobytes() + self.loss_mask.tobytes()).hexdigest()


@dataclass(frozen=True)
class Dropped:
    """A row that is left out because it, or the other row of its pair, is too long."""

    id: str
    """Id that the row would have."""
    tokens: int
    reason: str


@dataclass(frozen=True)
class RowSet:
    """The checked rows of a data set."""

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
        """Number of first positions that all rows share (an instruction, say) and that predict nothing learned.

        Position i predicts token i + 1. So rows `5 6 7 8` and `5 6 7 9` that learn their last token share 2 positions:
        the third one has the same token 7, but predicts a learned one.
        """
        if not self.rows:
            return 0
        # The last position of a row predicts nothing.
        shared = int(self.lengths.min()) - 1
        for row in self.rows:
            differs = row.tokens[:shared] != self.rows[0].tokens[:shared]
            predicts_learned = row.loss_mask[1:shared + 1] != 0
            ends = np.flatnonzero(differs | predicts_learned)
            if len(ends):
                shared = int(ends[0])
        return shared

    @cached_property
    def supervised(self) -> np.ndarray:
        """int64 ``[rows]``: number of positions of each row that predict a learned token."""
        # No position predicts the first token.
        return self._learned_counts[0] - np.array([row.loss_mask[0] for row in self.rows], np.int64)

    @property
    def learned_positions(self) -> dict[str, int]:
        """`supervised` by the rows' ids."""
        return dict(zip(self.ids, self.supervised.tolist(), strict=True))

    @property
    def whole(self) -> int:
        """Number of raw texts: rows in which every token but the first is learned."""
        return int((self.supervised == self.lengths - 1).sum())

    @property
    def total_tokens(self) -> int:
        """Tokens of all rows, without padding."""
        return int(self.lengths.sum())

    @property
    def supervised_tokens(self) -> int:
        """Tokens that are learned in one epoch."""
        return int(self._learned_counts[0].sum())

    @property
    def learned_turns(self) -> int:
        """Turns of the assistant that are learned in one epoch."""
        return int(self._learned_counts[1].sum())

    @cached_property
    def _learned_counts(self) -> np.ndarray:
        """int64 ``[2, rows]``: numbers of learned tokens, and of learned turns."""
        # With a 0 before each row, so that a turn begins where a 1 follows a 0.
        masks = (b"\0" + row.loss_mask.tobytes() for row in self.rows)
        counts = (count for mask in masks for count in (mask.count(1), mask.count(b"\0\1")))
        return np.fromiter(counts, np.int64).reshape(-1, 2).T

    @property
    def index(self) -> list[dict[str, Any]]:
        """The run's row index: one record for each row, kept or dropped.

        A row without `learned_turns` learns one turn, its last `supervised_tokens` tokens.
        """
        return [json.loads(line) for line in self._index_lines()]

    def _index_lines(self) -> Iterator[str]:
        # The index has no floats, so sorted JSON is canonical, and far faster than `canonical.dumps`.
        encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
        for row, supervised, turns in zip(self.rows, *self._learned_counts.tolist(), strict=True):
            # Left out for one turn, as nearly all rows have it.
            places = f'"learned_turns":{encode(row.learned_turns)},' if turns > 1 else ""
            earlier = f'"earlier_prompt_digests":{encode(row.earlier_prompt_digests)},' if turns > 1 else ""
            # Written out, in the order of the keys: an encoder takes several times as long.
            yield (f'{{"digest":"{row.digest}",{earlier}"id":{encode(row.id)},{places}"prompt_digest":'
                   f'"{row.prompt_digest}","status":"kept","supervised_tokens":{supervised},'
                   f'"tokens":{len(row.tokens)}}}\n')
        for gone in self.dropped:
            entry = {"id": gone.id, "status": "dropped", "reason": gone.reason, "tokens": gone.tokens}
            yield f"{encode(entry)}\n"

    @property
    def index_bytes(self) -> bytes:
        """The index as a run keeps it: canonical JSON lines, cleaned as the recorder cleans all that it writes."""
        text = "".join(self._index_lines())
        # Only the ids are texts of the user.
        ids = "\n".join([*self.ids, *(row.id for row in self.dropped)])
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
    """Digests of the questions whose answers the kept rows or prompts of an index teach; None for a missing one."""
    return {digest for row in rows if row.get("status", "kept") == "kept" for digest in question_digests(row)}


def question_digests(row: Mapping[str, Any]) -> list[str | None]:
    """Digests of the questions whose answers a row of an index teaches, the last first; None for an invalid one."""
    earlier = row.get("earlier_prompt_digests", [])
    digests = [row.get("prompt_digest"), *(earlier if isinstance(earlier, list) else [None])]
    return [digest if isinstance(digest, str) and digest else None for digest in digests]


def build_rows(traces: Sequence[Trace], tokenizer: Tokenizer, template: ChatTemplate,
               data_config: DataConfig) -> RowSet:
    """Turn traces into checked rows, in order. Raises `RequestError` for an unlearnable trace, and as `kept_rows`."""
    check_thinking(template, data_config)
    examples = (_example(trace, data_config) for trace in traces)
    rows = (part for example in encoded(examples, tokenizer, template) for part in _parts(row_of(example), data_config))
    further_advice = " or, for raw texts, data.over_length=split" if data_config.template == "plain" else ""
    return kept_rows(((row.id, [row]) for row in rows), "trace", len(traces), data_config, tokenizer.pad_id,
                     "reasoning and answer inside the window", further_advice)


@no_garbage_collection()
def kept_rows(entries: Iterable[tuple[str, Sequence[Row]]], kind: str, count: int, data_config: DataConfig, pad_id: int,
              expected: str, further_advice: str = "") -> RowSet:
    """The rows of all ``entries`` (ids with rows) that are not too long. A pair's rows are kept or dropped together.

    Raises `RequestError` if an id repeats, if no row is left, and if a row is too long and must not be dropped. In
    messages ``kind`` is what an entry is (`trace`, `pair` or `verdict`), and ``count`` the number of entries.
    ``expected`` and ``further_advice`` belong to the error about a row that is too long.
    """
    rows: list[Row] = []
    dropped: list[Dropped] = []
    too_long_entries: list[Dropped] = []
    seen: set[str] = set()
    limit = data_config.max_length
    for name, entry_rows in entries:
        if name in seen:
            raise RequestError(f"the {kind} id {name!r} occurs twice",
                               "ids that are unique: they decide the order of rows", "workings data check --fix")
        seen.add(name)
        longest = max([len(row.tokens) for row in entry_rows])
        # Never cut: a shortened row would teach reasoning without its answer, and never the stop token.
        if longest <= limit:
            rows += entry_rows
            continue
        where, subject = (" in its longer row", f"its {kind} has ") if len(entry_rows) > 1 else ("", "")
        reason = f"{longest} tokens{where}, and data.max_length is {limit}"
        too_long_entries.append(Dropped(name, longest, reason))
        # The rows of a pair have their own ids.
        dropped += [Dropped(row.id, len(row.tokens), f"{subject}{reason}") for row in entry_rows]
    if too_long_entries and data_config.over_length != "drop":
        worst, number = max(too_long_entries, key=lambda entry: entry.tokens), len(too_long_entries)
        others = f"; {number:,} of {count:,} are too long, and this is the longest" if number > 1 else ""
        raise RequestError(f"{kind} {worst.id}: {worst.reason}{others}", expected,
                           f"data.max_length={worst.tokens} or data.over_length=drop{further_advice}")
    if not rows:
        raise RequestError(f"no {kind} of {count} gives rows", f"at least one {kind}",
                           "a larger data.max_length" if dropped else f"a file with {kind}s")
    return RowSet(tuple(rows), tuple(dropped), pad_id, limit)


def example_id(row_id: str) -> str:
    """The id of the raw text that a row is a part of; any other id as it is."""
    text, mark, number = row_id.rpartition(PART)
    return text if mark and number.isdecimal() else row_id


def _parts(row: Row, config: DataConfig) -> Iterator[Row]:
    """The row itself, or the parts of a raw text that is too long and may be split.

    A part begins with the last token of the part before, which is only read there: no token is learned twice, and none
    but the first of the text is left out. With at most 3 tokens a row, `1 2 3 4 5` gives `1 2 3` and `3 4 5`.
    """
    limit = config.max_length
    # Only a raw text learns every token but the first.
    if config.over_length != "split" or len(row.tokens) <= limit or row.supervised_tokens != len(row.tokens) - 1:
        yield row
        return
    for number, start in enumerate(range(0, len(row.tokens) - 1, limit - 1), start=1):
        mask = row.loss_mask[start:start + limit].copy()
        mask[0] = 0
        yield Row(f"{row.id}{PART}{number}", row.tokens[start:start + limit], mask, row.prompt_digest)


def row_problems(entries: Iterable[Entry], tokenizer: Tokenizer, template: ChatTemplate, data_config: DataConfig,
                 build: Callable[..., object] = build_rows, kind: str = "trace") -> Iterator[tuple[str, str]]:
    """(id, reason) of every entry that ``build`` would refuse or drop; ``kind`` is what its errors call an entry."""
    config = data_config
    if config.over_length == "drop":
        config = config.model_copy(update={"over_length": "error"})

    def problems(chosen: Sequence[Entry]) -> Iterator[tuple[str, str]]:
        try:
            build(chosen, tokenizer, template, config)
        except RequestError as error:
            if len(chosen) == 1:
                [entry] = chosen
                yield entry.id, error.given.removeprefix(f"{kind} {entry.id}").lstrip(": ")
                return
            # The error is about the first bad entry only, so each half is tried again.
            middle = len(chosen) // 2
            yield from problems(chosen[:middle])
            yield from problems(chosen[middle:])

    remaining = iter(entries)
    while chunk := list(islice(remaining, _CHUNK)):
        yield from problems(chunk)


def row_of(encoded: Encoded) -> Row:
    """The row of an example: its completion is learned, and the earlier turns that are to be learned."""
    example = encoded.example
    earlier_questions = _earlier_questions(example) if example.learns_earlier else ()
    # A raw text has no question; its digest identifies it.
    return Row(example.id, encoded.tokens, encoded.loss_mask, prompt_digest(example.prompt or example.completion),
               tuple(map(prompt_digest, earlier_questions)))


def _earlier_questions(example: Example) -> Iterator[str]:
    """The user's last text before each earlier learned turn; empty if there is none."""
    question = ""
    for turn in example.asked.turns:
        if turn.role == "user":
            question = turn.text
        elif turn.role == "assistant" and turn.learned:
            yield question


def _example(trace: Trace, config: DataConfig) -> Example:
    """The texts of a trace. Raises `RequestError` if they do not fit `data.reasoning`."""
    reasoning = config.reasoning
    if trace.is_text:
        return _raw_text(trace, config)
    parts = (trace.answer,) if reasoning == "answer_only" else (*trace.steps, trace.answer)
    completion = completion_text(trace, reasoning)
    # Gemma 4's channel is not searched for: its marks are control tokens, which are refused anyway.
    if reasoning != "answer_only" and (mark := _REASONING_MARKS.search("\n".join(parts))):
        raise RequestError(f"trace {trace.id} has {mark.group()} in its text and steps too",
                           f"plain text in steps and answer, around which data.reasoning: {reasoning} writes the marks",
                           "workings data import, which splits completions, or data.reasoning=answer_only")
    if config.learn == "all":
        _refuse_another_form(trace, reasoning)
    return Example(id=trace.id, name=f"trace {trace.id}", prompt=trace.prompt,
                   asked=Asked.of(trace.prompt, trace.history, trace.tool_turns, trace.tools), calls=trace.calls,
                   learns_earlier=config.learn == "all", completion=completion, parts=parts,
                   thinks=reasoning in ("think", CHANNEL))


def _raw_text(trace: Trace, config: DataConfig) -> Example:
    """A text without a question or turns: BOS if the model has one, the text, and the end of text."""
    if config.template != "plain" or config.reasoning != "answer_only":
        raise RequestError(f"trace {trace.id} is a raw text, and the recipe has data.template: {config.template} and "
                           f"data.reasoning: {config.reasoning}",
                           "plain and answer_only: a raw text has neither turns nor steps",
                           "data.template=plain data.reasoning=answer_only")
    return Example(id=trace.id, name=f"trace {trace.id}", prompt="", asked=Asked(()), completion=trace.answer,
                   parts=(trace.answer,), thinks=False)


def _refuse_another_form(trace: Trace, reasoning: str) -> None:
    """Raise `RequestError` if an earlier turn has another form than the last: a model would learn to write either."""
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


def check_thinking(template: ChatTemplate, config: DataConfig) -> None:
    """Raise `RequestError` if Gemma 4's thinking is on in only one of template and recipe."""
    if template.thinking != (config.reasoning == CHANNEL):
        raise RequestError(f"data.reasoning is {config.reasoning}, but the chat template has Gemma 4's thinking "
                           f"{'on' if template.thinking else 'off'}", "a template made for this recipe",
                           f"ChatTemplate.for_config(template, tokenizer, reasoning={config.reasoning!r})")
