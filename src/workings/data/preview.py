"""`workings data preview`: rows as the model sees them, with read and learned tokens, and counts of all rows.

    <bos>user: What is 47+25?⏎assistant: «7+5=12, write 2 carry 1⏎4+2+1=7⏎#### 72<eos>»

The tokens between « and » are learned.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from workings.data.batches import Batches
from workings.data.columns import kept_columns
from workings.data.pair_rows import MISMATCHED, RIGHT, SIDES, WRONG, row_id
from workings.data.preferences import PreferencePair, Verdict
from workings.data.rows import Row, RowSet, example_id
from workings.data.traces import Trace
from workings.models.batch import BatchShape
from workings.models.tokenizer import Tokenizer
from workings.models.turns import Asked
from workings.models.turns import Turn as SpokenTurn
from workings.record.manifest import DRAWN_FROM
from workings.record.number_text import percent

Entry = Trace | PreferencePair | Verdict
_BINS = 8
_BAR_CHARACTERS = 32
_VISIBLE = {"\n": "⏎", "\t": "⇥", "\r": "␍"}


@dataclass(frozen=True)
class Piece:
    """One token of a row."""

    text: str
    """Line breaks and tabs are visible."""
    learned: bool
    control: bool
    """Whether this is a control token, such as a turn mark."""


@dataclass(frozen=True)
class Turn:
    """One turn of a row's conversation."""

    role: str
    """`system`, `user` or `assistant`; `text` for a raw text."""
    learned_tokens: int
    """Tokens that the loss counts, the stop token included; 0 if the turn is only read."""
    marked: bool = False
    """Whether the data say that this turn is not to be learned."""


@dataclass(frozen=True, kw_only=True)
class RowSummary:
    """Numbers about all rows."""

    learn: str
    """The recipe's `data.learn`."""
    assistant_turns: int
    learned_turns: int
    whole_rows: int
    """Raw texts, in which every token but the first is learned."""
    rows: int
    dropped: int
    tokens: int
    supervised_tokens: int
    shortest: int
    longest: int
    histogram: tuple[tuple[int, int, int], ...]
    """(from, to, rows): lengths in tokens, both ends included."""
    padding_share: float
    """Share of padding in all positions of the first epoch's batches."""
    shared_prefix: int
    steps_an_epoch: int
    shapes: tuple[BatchShape, ...]
    """(accumulation, rows, tokens) of every batch that can come."""

    def to_json(self) -> dict[str, Any]:
        """Keys of `--json`."""
        return {**asdict(self), "dropped_share": self.dropped_share, "shapes": [list(shape) for shape in self.shapes]}

    @property
    def dropped_share(self) -> float:
        """Share of the traces that give no row."""
        return self.dropped / (self.rows + self.dropped)

    def text(self) -> str:
        """A few lines for the terminal, with a histogram of lengths."""
        most = max(count for *_, count in self.histogram)
        bars = [f"  {low:>6}-{high:<6} {'█' * round(_BAR_CHARACTERS * count / most):<{_BAR_CHARACTERS}} {count}"
                for low, high, count in self.histogram]
        shapes = ", ".join(" x ".join(str(size) for size in shape) for shape in self.shapes)
        lines = [f"{self.rows:,} rows, {self.tokens:,} tokens, {self.supervised_tokens:,} of them learned "
                 f"({percent(self.supervised_tokens / self.tokens)})"]
        if self.whole_rows:
            lines.append(f"{self.whole_rows:,} of {self.rows:,} rows are raw texts: every token is learned but the "
                         "first, which nothing predicts")
        if self.whole_rows < self.rows:
            lines.append(f"data.learn: {self.learn}: {self.learned_turns - self.whole_rows:,} of "
                         f"{self.assistant_turns - self.whole_rows:,} turns of the assistant are learned")
        return "\n".join([
            *lines,
            f"truncated: none; dropped as too long: {self.dropped} ({percent(self.dropped_share)})",
            f"every row begins with the same {self.shared_prefix} tokens",
            f"padding: {percent(self.padding_share)} of all positions; {self.steps_an_epoch} steps per epoch; "
            f"batches (accumulation x rows x tokens): {shapes}", "lengths in tokens:", *bars])


def turns_of(entry: Entry, row: Row) -> list[Turn]:
    """Every turn of the entry's conversation, with the tokens of the row that are learned in it."""
    if isinstance(entry, Trace) and entry.is_text:
        return [Turn("text", row.supervised_tokens)]
    spoken = [*Asked.of(entry.prompt, entry.history, entry.tool_turns).turns, SpokenTurn("assistant", "")]
    # From the end, because the last turn is always learned: with `data.learn: last` it is the only one.
    learned_tokens = [end - start for start, end in row.learned_turns]
    turns = []
    for turn in reversed(spoken):
        is_learned = turn.role == "assistant" and turn.learned and bool(learned_tokens)
        turns.append(Turn(turn.role, learned_tokens.pop() if is_learned else 0, marked=not turn.learned))
    return turns[::-1]


def pieces(row: Row, tokenizer: Tokenizer) -> list[Piece]:
    """The tokens of a row one by one. A token that is a part of a character is shown as the vocabulary spells it."""
    controls = tokenizer.control_ids
    parts = []
    for token, learned in zip(row.tokens.tolist(), row.loss_mask.tolist(), strict=True):
        text, spelling = tokenizer.decode([token]), tokenizer.token(token)
        # SentencePiece spells a space before a word as U+2581. Some decoders drop a space at the beginning of a text.
        if spelling.startswith("▁") and not text.startswith(" "):
            text = f" {text}"
        elif not text or "\ufffd" in text:
            text = spelling
        for hidden, visible in _VISIBLE.items():
            text = text.replace(hidden, visible)
        parts.append(Piece(text, bool(learned), token in controls))
    return parts


def marked(row_pieces: Sequence[Piece]) -> str:
    """A row as plain text, with learned parts between `«` and `»`."""
    parts = []
    for learned, group in groupby(row_pieces, key=lambda piece: piece.learned):
        text = "".join(piece.text for piece in group)
        parts.append(f"«{text}»" if learned else text)
    return "".join(parts)


def unread_columns(entries: Sequence[Entry]) -> list[str]:
    """Sentences about columns that are kept and not shown to a model; metadata of a model's samples are no columns."""
    columns = Counter(key for entry in entries if DRAWN_FROM not in entry.metadata for key in entry.metadata)
    return list(kept_columns(columns))


def entries_by_row(entries: Sequence[Entry], rows: RowSet) -> dict[str, Entry]:
    """The entry of each row, by the row's id."""
    by_name = {name: entry for entry in entries for name in _row_names(entry)}
    # A row of a part of a raw text is named after the text (`example_id`).
    return {name: by_name[name if name in by_name else example_id(name)] for name in rows.ids}


def _row_names(entry: Entry) -> list[str]:
    if isinstance(entry, PreferencePair):
        return [row_id(entry.id, side) for side in SIDES]
    if isinstance(entry, Verdict):
        return [row_id(entry.id, RIGHT if entry.label else WRONG), row_id(entry.id, MISMATCHED)]
    return [entry.id]


def summarize(rows: RowSet, batches: Batches, entries: Sequence[Entry], learn: str) -> RowSummary:
    """Counts, lengths and padding of all rows, which these entries gave; ``learn`` is the recipe's `data.learn`."""
    turns = sum(1 + sum(turn.role == "assistant" for turn in (*entry.history, *entry.tool_turns))
                for entry in entries_by_row(entries, rows).values())
    lengths = sorted(len(row.tokens) for row in rows.rows)
    shortest, longest = lengths[0], lengths[-1]
    width = math.ceil((longest - shortest + 1) / _BINS)
    histogram = [(low, min(low + width - 1, longest), sum(low <= length < low + width for length in lengths))
                 for low in range(shortest, longest + 1, width)]
    return RowSummary(learn=learn, assistant_turns=turns, learned_turns=rows.learned_turns, whole_rows=rows.whole,
                      rows=len(rows.rows), dropped=len(rows.dropped), tokens=rows.total_tokens,
                      supervised_tokens=rows.supervised_tokens, shortest=shortest, longest=longest,
                      histogram=tuple(histogram), padding_share=batches.padding_share(),
                      shared_prefix=rows.shared_prefix, steps_an_epoch=batches.batches_in_epoch(0),
                      shapes=tuple(batches.shapes()))
