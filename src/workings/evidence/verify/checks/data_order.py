"""Level 1: the steps saw the rows that seed and row index imply, and no question of an evaluation."""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from math import prod
from typing import Any

import numpy as np

from workings.config.data import DataConfig
from workings.data.batches import Batches, Position
from workings.data.pair_rows import grouped
from workings.data.rows import Row, RowSet, index_digest, learned_questions, prompt_digest, question_digests
from workings.errors import RecordError
from workings.evidence.verify.record import Unit, computed_once
from workings.evidence.verify.registry import Found, check, join_first, not_checked, records
from workings.hardware.device import row_devices
from workings.record import layout
from workings.record.digest import bytes_digest
from workings.record.metrics import padding_share
from workings.record.storage import TooLarge

MAX_SEQUENCES = 20_000_000
"""Sequences over all steps beyond which the order is not computed again here."""
MAX_GLOBAL_BATCH = 1_000_000
"""Largest global batch that is believed, in rows."""
MAX_LENGTH = 10_000_000
"""Longest sequence that is believed, in tokens."""


def has_few_sequences(unit: Unit) -> bool:
    """Whether the order of a run's batches can be planned again in a short time."""
    return len(unit.metrics) * unit.manifest.global_batch <= MAX_SEQUENCES


@check("consistency.rows", when=records(layout.ROWS))
def rows(unit: Unit) -> Found:
    """The digest over ids and digests of the kept rows; the digests of stored data; the learned turns."""
    trained_rows, digests = kept_rows(unit), unit.manifest.data_digests
    digest = index_digest((row["id"], row["digest"]) for row in trained_rows)
    if digest != digests.get("rows"):
        yield f"{layout.ROWS} has digest {digest[:16]}…, {layout.DATA_DIGESTS} names {str(digests.get('rows'))[:16]}…"
    for file, name in ((layout.GIVEN_TRACES, "traces"), (layout.GIVEN_ITEMS, "items")):
        if unit.has(file) and bytes_digest(unit.read(file)) != digests.get(name):
            yield f"{file} has another digest than {layout.DATA_DIGESTS} has: {str(digests.get(name))[:16]}…"
    if without_supervision := [row["id"] for row in trained_rows if row["supervised_tokens"] < 1]:
        yield f"rows without a supervised token: {join_first(without_supervision)}"
    every_turn = unit.section("data").get("learn") == "all"
    if wrong_turns := [row["id"] for row in trained_rows if not _turns_agree(row, every_turn)]:
        yield ("learned turns that do not add up to the row's supervised tokens, or that the recipe does not ask for: "
               f"{join_first(wrong_turns)}")
    whole = sum(row["supervised_tokens"] == row["tokens"] - 1 for row in trained_rows)
    return f"{len(trained_rows):,} rows" + (f", {whole:,} of these learned whole" if whole else "")


@check("consistency.rows", when=records(layout.ROWS))
def order(unit: Unit) -> Found:
    """Batch digest and counts of each step against the epochs, planned again from ids, lengths and seed.

    The position of each checkpoint in the data; the reasons of rows that were dropped.
    """
    steps = planned_steps(unit)
    for step in steps:
        subject = f"step {step.line.get('step')}"
        if step.digest != step.line.get("batch_digest"):
            yield f"{subject}: another batch than seed and row index imply"
        yield from (f"{subject}: {name} {str(step.line[name])[:20]}, its rows have {value}"
                    for name, value in step.counts.items() if step.line.get(name, value) != value)
    if unit.written_by_train:
        yield from _position_problems(unit, [step.at for step in steps])
    for row in unit.lines(layout.ROWS):
        status = row.get("status", "kept")
        if status not in ("kept", "dropped"):
            yield f"row {str(row.get('id'))[:40]}: status {str(status)[:20]!r}"
        elif status == "dropped" and unit.written_by_train and not _is_too_long(row, unit.section("data")):
            yield f"row {str(row.get('id'))[:40]}: dropped, and neither length nor recipe asks for it"
    return (f"{len(steps)} batches of seed {unit.manifest.seed}, {sum(line.tokens for line in unit.steps):,} tokens, "
            f"to epoch {steps[-1].at.epoch if steps else 0}")


def _position_problems(unit: Unit, positions: list[Position]) -> Iterator[str]:
    """Positions of checkpoints that are not those of the batches after their last steps."""
    for step, folder in unit.checkpoints.items():
        if not 1 <= step <= len(positions):
            continue  # reported by `consistency.checkpoints`
        expected = batches_of(unit).after(positions[step - 1]).to_json()
        position = unit.json(f"{folder}/{layout.STATE}")["facts"]["position"]
        if position != expected:
            yield f"{folder}: position {str(position)[:60]}, the log ends at {expected}"


def _is_too_long(row: dict[str, Any], section: dict[str, Any]) -> bool:
    """Whether a row had to be dropped for its length, by the recipe's section `data`, and says so."""
    count, limit = row.get("tokens"), section.get("max_length", 0)
    is_longer = type(count) is int and count > limit and section.get("over_length") == "drop"
    return is_longer and row.get("reason") == f"{count} tokens, and data.max_length is {limit}"


@check("consistency.disjoint", "measurements")
def disjoint(unit: Unit) -> Found:
    """Questions compared in lower case with single spaces, ids unchanged."""
    run = unit.parent or unit.record.by_root.get(str(unit.seal["made_from"]))
    if run is None:
        return not_checked("the run that it was made from is not here", blocking=False)
    # Digests of the normalised questions are in the row index, so that leaks are found without the data.
    trained = learned_questions(run.lines(layout.PROMPTS) if records(layout.PROMPTS)(run) else kept_rows(run))
    if None in trained:
        return not_checked(f"the index of {run.title} has no digests of questions")
    questions = {str(row.get("id")): str(row.get("prompt", "")) for row in unit.lines(layout.PREDICTIONS)}
    # An invisible letter in a question would change its digest.
    trained_items = sorted(name for name, prompt in questions.items()
                           if {prompt_digest(prompt), prompt_digest(visible(prompt))} & trained)
    if trained_items:
        yield f"{len(trained_items)} of {len(questions)} questions were trained on: {join_first(trained_items)}"
    return f"{len(questions)} questions, none of them among {len(trained):,} trained ones"


def visible(text: str) -> str:
    """A text without invisible letters, and with one form of letters that look the same."""
    normalized = unicodedata.normalize("NFKC", text)
    # Cf: zero-width letters and marks of direction; Mn and Me: marks on a letter that have no single letter.
    return "".join(letter for letter in normalized if unicodedata.category(letter) not in ("Cf", "Mn", "Me"))


def _turns_agree(row: dict[str, Any], every_turn: bool) -> bool:
    """Whether the trained turns of a row, if there are several, add up to its supervised tokens.

    ``learned_turns`` are [start, end) in the row's tokens: of a row of 20 tokens, `[[5, 9], [12, 20]]` are 12.
    """
    if "learned_turns" not in row:
        return True
    turns = row["learned_turns"]
    if not every_turn or not isinstance(turns, list) or len(turns) < 2 or len(question_digests(row)) != len(turns):
        return False
    if not all(isinstance(turn, list) and len(turn) == 2 and {*map(type, turn)} == {int} for turn in turns):
        return False
    borders = [0, *chain.from_iterable(turns)]
    return (all(before < after for before, after in pairwise(borders)) and borders[-1] == row["tokens"]
            and sum(end - start for start, end in turns) == row["supervised_tokens"])


def kept_rows(unit: Unit) -> list[dict[str, Any]]:
    """Rows of the index that were trained on. Raises `RecordError` for a line without id, digest or counts."""
    trained_rows = [row for row in unit.lines(layout.ROWS) if row.get("status", "kept") == "kept"]
    for number, row in enumerate(trained_rows, start=1):
        if not isinstance(row.get("id"), str) or not isinstance(row.get("digest"), str):
            raise RecordError(f"{unit.tree_path(layout.ROWS)}, line {number}: no id or no digest")
        for name in ("tokens", "supervised_tokens"):
            if type(row.get(name)) is not int or not 0 <= row[name] <= MAX_LENGTH:
                raise RecordError(f"{unit.tree_path(layout.ROWS)}, line {number}: {name} is no count")
    if len({row["id"] for row in trained_rows}) != len(trained_rows):
        raise RecordError(f"{unit.tree_path(layout.ROWS)}: an id is there twice")
    return trained_rows


@dataclass(frozen=True, kw_only=True)
class PlannedStep:
    """One step as seed and row index imply it, next to the line that the log has of it."""

    line: dict[str, Any]
    at: Position
    """Data position of its batch."""
    digest: str
    counts: dict[str, int | float]
    """Expected values of `tokens`, `supervised_tokens`, `positions` and `padding` (a share) in the line."""


@computed_once("planned steps")
def planned_steps(unit: Unit) -> list[PlannedStep]:
    """The planned step of each line of the log, cached. Raises `RecordError`."""
    batches, rows = batches_of(unit), {row["id"]: row for row in kept_rows(unit)}
    # A batch's digest is over the digests of its rows, so the tokens need not be in the record.
    digests = {name: row["digest"] for name, row in rows.items()}
    at, steps = Position(), []
    for line in unit.metrics:
        ids = row_ids(batches, at)
        tokens, positions = sum(rows[name]["tokens"] for name in ids), prod(batches.shape_at(at))
        steps.append(PlannedStep(line=line, at=at, digest=batches.digest_at(at, digests), counts={
            "tokens": tokens, "supervised_tokens": sum(rows[name]["supervised_tokens"] for name in ids),
            "positions": positions, "padding": padding_share(tokens, positions)}))
        at = batches.after(at)
    return steps


def row_ids(batches: Batches, at: Position) -> list[str]:
    """Ids of the rows of a batch."""
    return [name for sequence in batches.row_ids(at) for name in sequence]


@computed_once("batches")
def batches_of(unit: Unit) -> Batches:
    """The plan of batches, from lengths alone, cached. Raises `RecordError`, and `TooLarge` if it takes too long."""
    if not has_few_sequences(unit):
        raise TooLarge(f"more than {MAX_SEQUENCES:,} sequences")
    snapshot, way = unit.manifest.config, unit.algorithm
    data_config = DataConfig.model_validate(snapshot["data"])
    micro_batch, accumulation = snapshot["batch"]["micro_batch"], snapshot["batch"]["accumulation"]
    devices = row_devices(unit.manifest.device.mesh)
    if min(micro_batch, accumulation, devices) < 1:
        raise RecordError(f"{layout.CONFIG}: micro_batch, accumulation and mesh are no counts")
    if micro_batch % way.rows_per_example or (way.rows_per_example > 1 and data_config.packing != "none"):
        raise RecordError(f"{layout.CONFIG}: pairs that are packed, or micro batches of half a pair")
    if unit.manifest.global_batch > MAX_GLOBAL_BATCH:
        raise RecordError(f"a global batch of {unit.manifest.global_batch:,} rows")
    zero, kept = np.zeros(1, np.int32), kept_rows(unit)
    lengths = [row["tokens"] for row in kept]
    if not lengths or max(lengths) > data_config.max_length or min(lengths) < 1:
        raise RecordError(f"{unit.tree_path(layout.ROWS)}: no rows, or rows longer than data.max_length or empty")
    # Rows of zeros, because only their lengths decide; `broadcast_to` repeats one zero without using memory.
    rows = tuple(Row(row["id"], np.broadcast_to(zero, (row["tokens"],)), zero, "") for row in kept)
    row_set = RowSet(rows, dropped=(), pad_id=0, max_length=data_config.max_length)
    return Batches(grouped(way.examples, row_set), seed=unit.manifest.seed, accumulation=accumulation,
                   rows_per_micro_batch=micro_batch * devices, data_config=data_config)
