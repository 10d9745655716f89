"""Rows of preference pairs and verdicts: two consecutive rows each, proved like the rows of traces.

    pair      `ID/chosen`                  `ID/rejected`      its two completions after its prompt
    verdict   `ID/right` or `ID/wrong`     `ID/mismatched`    its completion, and another prompt's, after its prompt

Both rows of an entry are kept, or both are dropped. Completions are learned as they are written: `data.reasoning` is
for steps of traces. KTO estimates by the mismatched rows how far the model has drifted. Their completions are those of
the next entry in the file with another prompt, so the data determine them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import zip_longest
from typing import Any

import numpy as np

from workings.config.algorithm import Examples
from workings.config.data import DataConfig
from workings.data.encode import Example, encoded
from workings.data.preferences import PreferencePair, Verdict
from workings.data.rows import (
    Row,
    RowSet,
    build_rows,
    example_id,
    kept_rows,
    refuse_other_template,
    row_of,
    row_problems,
)
from workings.errors import RecordError, RequestError
from workings.models.chat import THINK, THOUGHT, THOUGHT_END, ChatTemplate
from workings.models.tokenizer import Tokenizer
from workings.models.turns import Asked

SIDES = ("chosen", "rejected")
"""The completions of a pair, in row order; each is a suffix of its row's id, after a slash."""
RIGHT, WRONG, MISMATCHED = "right", "wrong", "mismatched"
"""Ends of row ids: of a verdict's completion, which is right or wrong, and of the row after it."""


@dataclass(frozen=True)
class PairRows:
    """All pairs or verdicts of a data set as rows."""

    rows: RowSet
    """``2 * pairs`` rows."""

    @cached_property
    def ids(self) -> list[str]:
        """The ids of the pairs or verdicts, in their order. Raises `RecordError` if the rows are not in pairs."""
        are_verdicts = self.rows.ids[-1].endswith(f"/{MISMATCHED}")
        return verdict_ids(self.rows.ids) if are_verdicts else pair_ids(self.rows.ids)

    @cached_property
    def lengths(self) -> np.ndarray:
        """int64 ``[pairs]``: tokens of the longer row of each pair, which decides its bucket."""
        longest: np.ndarray = self.rows.lengths.reshape(len(self.ids), len(SIDES)).max(axis=1)
        return longest


def row_id(pair_id: str, side: str) -> str:
    """The id of one of a pair's two rows."""
    return f"{pair_id}/{side}"


def pair_ids(row_ids: Sequence[str], first: Sequence[str] = SIDES[:1], second: str = SIDES[1]) -> list[str]:
    """The ids of the pairs whose rows have these ids.

    Raises `RecordError` if the rows are not a ``first`` and a ``second`` one of each pair, in this order.
    """
    ids = []
    for own, other in zip_longest(row_ids[::2], row_ids[1::2], fillvalue=""):
        name = other.removesuffix(f"/{second}")
        if other != row_id(name, second) or own not in [row_id(name, end) for end in first]:
            raise RecordError(f"rows that are not in pairs of {' or '.join(first)} and {second}: {own[:80]!r}, "
                              f"{other[:80]!r}")
        ids.append(name)
    return ids


verdict_ids = partial(pair_ids, first=(RIGHT, WRONG), second=MISMATCHED)
"""The ids of the verdicts whose rows have these ids; errors as of `pair_ids`."""


def build_pair_rows(pairs: Sequence[PreferencePair], tokenizer: Tokenizer, template: ChatTemplate,
                    data_config: DataConfig) -> PairRows:
    """Turn pairs into proved rows, in the pairs' order.

    Raises `RequestError` as `workings.data.rows.build_rows`, and if both completions of a pair are the same tokens.
    """
    def examples() -> Iterator[Example]:
        for pair in pairs:
            for side, text in zip(SIDES, (pair.chosen, pair.rejected), strict=True):
                yield _example(row_id(pair.id, side), f"pair {pair.id}: {side}", pair, text, template)

    return PairRows(_two_rows_each(pairs, examples(), tokenizer, template, data_config, "pair"))


def _two_rows_each(entries: Sequence[PreferencePair | Verdict], examples: Iterable[Example], tokenizer: Tokenizer,
                   template: ChatTemplate, data_config: DataConfig, kind: str) -> RowSet:
    """Proved rows of entries of a ``kind`` (`pair` or `verdict`), which have two ``examples`` each."""
    refuse_other_template(template, data_config)

    def rows() -> Iterator[tuple[str, tuple[Row, Row]]]:
        sides = encoded(examples, tokenizer, template)
        # The same iterator twice: each entry takes two examples.
        for entry, first, second in zip(entries, sides, sides, strict=True):
            if kind == "pair" and first.completion == second.completion:
                raise RequestError(f"pair {entry.id}: both completions are the same {len(first.completion)} tokens",
                                   "a better completion and a worse one", "workings data check PAIRS --fix")
            yield entry.id, (row_of(first), row_of(second))

    return kept_rows(rows(), kind, len(entries), data_config, tokenizer.pad_id, "both completions inside the window")


pair_problems = partial(row_problems, build=build_pair_rows, kind="pair")
"""(id, reason) of every pair that `build_pair_rows` would refuse or drop."""


def _example(name: str, said: str, entry: PreferencePair | Verdict, completion: str, template: ChatTemplate
               ) -> Example:
    """A completion of an entry's prompt; ``name`` is the id of its row, ``said`` its name in messages."""
    return Example(id=name, name=said, prompt=entry.prompt,
                   asked=Asked.of(entry.prompt, entry.history, entry.tool_turns, entry.tools),
                   completion=completion, parts=_parts(completion, template),
                   thinks=template.begins_with_reasoning(completion))


def _parts(text: str, template: ChatTemplate) -> tuple[str, ...]:
    """Texts of a completion, without the marks around its reasoning."""
    thought, answer = template.split_thought(text)
    if thought:
        return thought.removeprefix(THOUGHT).removesuffix(THOUGHT_END), answer
    # A prompt may end with the tag `<think>`, which is not learned then.
    return (text.removeprefix(THINK),)


LogProbs = Mapping[str, float]
"""Row id -> log probability of its completion under the reference, in nats; float32 numbers."""


def log_prob_lines(log_probs: LogProbs) -> list[dict[str, Any]]:
    """Lines of a run's record, in the order of the ids."""
    return [{"id": name, "log_prob": log_probs[name]} for name in sorted(log_probs)]


def read_log_prob_lines(lines: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Log probabilities from such lines. Raises `RecordError` for an invalid line, and for an id that comes twice."""
    sums: dict[str, float] = {}
    for number, line in enumerate(lines, start=1):
        name, log_prob = line.get("id"), line.get("log_prob")
        if not isinstance(name, str) or name in sums or not isinstance(log_prob, int | float) or type(log_prob) is bool:
            raise RecordError(f"line {number} of the reference's log probabilities: an id and a number were expected, "
                              "each id once")
        # Exact: every float32 is a float64, whose shortest text is read back to the bit.
        sums[name] = float(log_prob)
    return sums


def verdict_of(name: str) -> int:
    """1 for the row of a correct completion, -1 for a wrong one, 0 for a mismatched one."""
    return {RIGHT: 1, WRONG: -1}.get(name.rpartition("/")[2], 0)


def build_verdict_rows(verdicts: Sequence[Verdict], tokenizer: Tokenizer, template: ChatTemplate,
                       data_config: DataConfig) -> PairRows:
    """Turn verdicts into proved rows, in the verdicts' order.

    Raises `RequestError` as `workings.data.rows.build_rows`, and if all verdicts have one prompt.
    """
    questions = [(entry.prompt, entry.history, entry.tool_turns) for entry in verdicts]
    if len(set(questions)) < 2:
        raise RequestError(f"all {len(verdicts)} verdicts have the same prompt",
                           "at least two prompts: the model's drift is measured by completions of other prompts")

    def examples() -> Iterator[Example]:
        for at, entry in enumerate(verdicts):
            yield _example(row_id(entry.id, RIGHT if entry.label else WRONG), f"verdict {entry.id}", entry,
                             entry.completion, template)
            # After the last entry comes the first one again.
            following = (index % len(verdicts) for index in range(at + 1, at + len(verdicts)))
            other = verdicts[next(index for index in following if questions[index] != questions[at])]
            yield _example(row_id(entry.id, MISMATCHED), f"verdict {entry.id}, with the completion of {other.id}",
                           entry, other.completion, template)

    return PairRows(_two_rows_each(verdicts, examples(), tokenizer, template, data_config, "verdict"))


def build_example_rows(examples: Examples, entries: Sequence[Any], tokenizer: Tokenizer, template: ChatTemplate,
                       data_config: DataConfig) -> RowSet:
    """Proved rows of a recipe's ``examples``. Raises `RequestError` for one that must not be learned from."""
    if examples == "pairs":
        return build_pair_rows(entries, tokenizer, template, data_config).rows
    if examples == "verdicts":
        return build_verdict_rows(entries, tokenizer, template, data_config).rows
    return build_rows(entries, tokenizer, template, data_config)


def example_ids(examples: Examples, row_ids: Sequence[str]) -> set[str]:
    """The ids of the examples that became these rows. Raises `RecordError` as `pair_ids`."""
    if examples == "pairs":
        return {*pair_ids(row_ids)}
    if examples == "verdicts":
        return {*verdict_ids(row_ids)}
    return {*row_ids, *map(example_id, row_ids)}


def grouped(examples: Examples, rows: RowSet) -> RowSet | PairRows:
    """Rows as batches take them: with those of one example together."""
    return PairRows(rows) if examples in ("pairs", "verdicts") else rows
