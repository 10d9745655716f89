"""Rows of preference pairs and verdicts: two consecutive rows each, checked like the rows of traces.

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
from typing import Any, Literal

import numpy as np

from workings.config.algorithm import Examples
from workings.config.data import DataConfig
from workings.data.encode import Example, encoded
from workings.data.preferences import PreferencePair, Verdict
from workings.data.rows import Row, RowSet, build_rows, check_thinking, example_id, kept_rows, row_of, row_problems
from workings.errors import RecordError, RequestError
from workings.models.chat import THINK, THOUGHT, THOUGHT_END, ChatTemplate
from workings.models.tokenizer import Tokenizer
from workings.models.turns import Asked

CHOSEN, REJECTED = "chosen", "rejected"
SIDES = (CHOSEN, REJECTED)
"""The completions of a pair, in row order; each is a suffix of its row's id, after a slash."""
RIGHT, WRONG, MISMATCHED = "right", "wrong", "mismatched"
"""Ends of row ids: of a verdict's completion, which is right or wrong, and of the row after it."""
LogProbs = Mapping[str, float]
"""Row id -> log probability of its completion under the reference, in nats; float32 numbers."""


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


def _entry_ids(row_ids: Sequence[str], first_ends: Sequence[str], second_end: str) -> list[str]:
    """The ids of the entries whose rows have these ids, two by two.

    Raises `RecordError` if one of the ``first_ends`` and the ``second_end`` of the same entry do not alternate.
    """
    ids = []
    for first, second in zip_longest(row_ids[::2], row_ids[1::2], fillvalue=""):
        entry_id = second.removesuffix(f"/{second_end}")
        if second != row_id(entry_id, second_end) or first not in [row_id(entry_id, end) for end in first_ends]:
            raise RecordError(f"rows that are not in pairs of {' or '.join(first_ends)} and {second_end}: "
                              f"{first[:80]!r}, {second[:80]!r}")
        ids.append(entry_id)
    return ids


def pair_ids(row_ids: Sequence[str]) -> list[str]:
    """`a` and `b` for the rows `a/chosen`, `a/rejected`, `b/chosen`, `b/rejected`. Raises `RecordError` for others."""
    return _entry_ids(row_ids, [CHOSEN], REJECTED)


def verdict_ids(row_ids: Sequence[str]) -> list[str]:
    """`a` and `b` for `a/right`, `a/mismatched`, `b/wrong`, `b/mismatched`. Raises `RecordError` for other rows."""
    return _entry_ids(row_ids, [RIGHT, WRONG], MISMATCHED)


def build_pair_rows(pairs: Sequence[PreferencePair], tokenizer: Tokenizer, template: ChatTemplate,
                    data_config: DataConfig) -> PairRows:
    """Turn pairs into checked rows, in the pairs' order.

    Raises `RequestError` as `workings.data.rows.build_rows`, and if both completions of a pair are the same tokens.
    """
    examples = (_example(pair, side, completion, f"pair {pair.id}: {side}", template) for pair in pairs
                for side, completion in ((CHOSEN, pair.chosen), (REJECTED, pair.rejected)))
    return PairRows(_two_rows_each(pairs, examples, tokenizer, template, data_config, "pair"))


pair_problems = partial(row_problems, build=build_pair_rows, kind="pair")
"""(id, reason) of every pair that `build_pair_rows` would refuse or drop."""


def _two_rows_each(entries: Sequence[PreferencePair | Verdict], examples: Iterable[Example], tokenizer: Tokenizer,
                   template: ChatTemplate, data_config: DataConfig, kind: Literal["pair", "verdict"]) -> RowSet:
    """Checked rows of entries of a ``kind``, which have two consecutive ``examples`` each."""
    check_thinking(template, data_config)

    def rows_of_entries() -> Iterator[tuple[str, tuple[Row, Row]]]:
        encoded_examples = encoded(examples, tokenizer, template)
        # The same iterator twice: each entry takes two examples.
        for entry, first, second in zip(entries, encoded_examples, encoded_examples, strict=True):
            # After the same prompt.
            if kind == "pair" and np.array_equal(first.tokens, second.tokens):
                raise RequestError(f"pair {entry.id}: both completions are the same {first.loss_mask.sum()} tokens",
                                   "a better completion and a worse one", "workings data check PAIRS --fix")
            yield entry.id, (row_of(first), row_of(second))

    return kept_rows(rows_of_entries(), kind, len(entries), data_config, tokenizer.pad_id,
                     "both completions inside the window")


def _example(entry: PreferencePair | Verdict, side: str, completion: str, name: str, template: ChatTemplate) -> Example:
    """A completion after an entry's prompt. ``side`` ends the id of its row; messages call the example ``name``."""
    return Example(id=row_id(entry.id, side), name=name, prompt=entry.prompt,
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
    """Turn verdicts into checked rows, in the verdicts' order.

    Raises `RequestError` as `workings.data.rows.build_rows`, and if all verdicts have one prompt.
    """
    if len(set(map(_question, verdicts))) < 2:
        raise RequestError(f"all {len(verdicts)} verdicts have the same prompt",
                           "at least two prompts: the model's drift is measured by completions of other prompts")

    examples = _verdict_examples(verdicts, template)
    return PairRows(_two_rows_each(verdicts, examples, tokenizer, template, data_config, "verdict"))


def _question(verdict: Verdict) -> tuple[object, ...]:
    return verdict.prompt, verdict.history, verdict.tool_turns


def _verdict_examples(verdicts: Sequence[Verdict], template: ChatTemplate) -> Iterator[Example]:
    """For each verdict its own completion, then that of the next verdict with another question."""
    for position, verdict in enumerate(verdicts):
        own_side = RIGHT if verdict.label else WRONG
        yield _example(verdict, own_side, verdict.completion, f"verdict {verdict.id}", template)
        # After the last verdict comes the first one again.
        following = (verdicts[index % len(verdicts)] for index in range(position + 1, position + len(verdicts)))
        other = next(other for other in following if _question(other) != _question(verdict))
        yield _example(verdict, MISMATCHED, other.completion,
                       f"verdict {verdict.id}, with the completion of {other.id}", template)


def build_example_rows(examples: Examples, entries: Sequence[Any], tokenizer: Tokenizer, template: ChatTemplate,
                       data_config: DataConfig) -> RowSet:
    """Checked rows of a recipe's ``examples``. Raises `RequestError` for one that must not be learned from."""
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
    """Rows as `workings.data.batches.Batches` takes them: the two rows of a pair or verdict stay together."""
    return PairRows(rows) if examples in ("pairs", "verdicts") else rows
