"""Verdicts as rows: each completion after its prompt, and next to it another prompt's completion.

By the second row KTO estimates how far the model has drifted. It is the completion of the next entry in the file that
has another prompt, so that the data determine it. The id of the first row has the verdict.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property

from workings.config.data import DataConfig
from workings.data.encode import Example
from workings.data.pair_rows import PairRows, example_of, row_id, two_rows_each
from workings.data.verdicts import Verdict
from workings.errors import RecordError, RequestError
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer

RIGHT, WRONG, MISMATCHED = "right", "wrong", "mismatched"
"""Ends of row ids: those of a completion by its verdict, and that of the row next to it."""


class VerdictRows(PairRows):
    """All verdicts of a data set as rows."""

    @cached_property
    def ids(self) -> list[str]:
        """The verdicts' ids, in their order. Raises `RecordError` if the rows are not two for each."""
        return verdict_ids(self.rows.ids)


def verdict_ids(row_ids: Sequence[str]) -> list[str]:
    """The ids of the verdicts whose rows have these ids.

    Raises:
        RecordError: the rows are not a labelled and a mismatched one per verdict, in this order.
    """
    names = [name.removesuffix(f"/{MISMATCHED}") for name in row_ids[1::2]]
    for name, own, other in zip(names, row_ids[::2], row_ids[1::2], strict=False):
        if own not in (row_id(name, RIGHT), row_id(name, WRONG)) or other != row_id(name, MISMATCHED):
            raise RecordError(f"rows that are not two for each verdict: {own[:80]!r}, {other[:80]!r}")
    if len(row_ids) % 2:
        raise RecordError(f"rows that are not two for each verdict: {row_ids[-1][:80]!r}")
    return names


def verdict_of(name: str) -> int:
    """1 for the row of a correct completion, -1 for a wrong one, 0 for a mismatched one."""
    return {RIGHT: 1, WRONG: -1}.get(name.rpartition("/")[2], 0)


def build_verdict_rows(verdicts: Sequence[Verdict], tokenizer: Tokenizer, template: ChatTemplate,
                       data_config: DataConfig) -> VerdictRows:
    """Turn verdicts into proved rows, in the verdicts' order.

    Raises:
        RequestError: naming the verdict, when something that must hold does not; when ids repeat; when all have one
            prompt; when no verdict is left.
    """
    questions = [(entry.prompt, entry.history, entry.tool_turns) for entry in verdicts]
    if len(set(questions)) < 2:
        raise RequestError(f"all {len(verdicts)} verdicts have the same prompt",
                           "at least two prompts: the model's drift is measured by completions of other prompts")

    def examples() -> Iterator[Example]:
        for at, entry in enumerate(verdicts):
            yield example_of(row_id(entry.id, RIGHT if entry.label else WRONG), f"verdict {entry.id}", entry,
                             entry.completion, template)
            # In a circle: the last one takes the first completion of another prompt.
            other = next(after % len(verdicts) for after in range(at + 1, at + len(verdicts))
                         if questions[after % len(verdicts)] != questions[at])
            yield example_of(row_id(entry.id, MISMATCHED), f"verdict {entry.id}, with the completion of "
                             f"{verdicts[other].id}", entry, verdicts[other].completion, template)

    return VerdictRows(two_rows_each([entry.id for entry in verdicts], examples(), tokenizer, template, data_config,
                                     "verdict"))
