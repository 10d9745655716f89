"""Level 1: the steps saw the rows that seed and row index imply, and no question of an evaluation among them."""

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from workings.config.data import DataConfig
from workings.errors import RecordError
from workings.evidence.verify.checks import check, each, each_run, judged, not_checked, several
from workings.evidence.verify.record import Record, Unit
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.rewarded import draws
from workings.record.layout import DATA_DIGESTS, PREDICTIONS, PROMPTS, ROWS, SUMS

if TYPE_CHECKING:
    from workings.data.batches import Batches, Position

MAX_SEQUENCES = 20_000_000
"""Sequences over all steps beyond which the order is not computed again here."""
MAX_GLOBAL_BATCH = 1_000_000
"""Largest global batch that is believed, in rows."""
MAX_LENGTH = 10_000_000
"""Longest sequence that is believed, in tokens."""


@check("consistency.rows", level=1, title="the row index is the one that the manifest names")
def rows(record: Record) -> Iterator[CheckFinding]:
    """The digest over ids and digests of the kept rows; the list of digests in its own file; the learned turns."""
    def find(unit: Unit) -> Iterator[CheckFinding]:
        if draws(unit):  # it has prompts, which have checks of their own
            return
        kept = kept_rows(unit)
        from workings.data.rows import index_digest
        digest = index_digest((row["id"], row["digest"]) for row in kept)
        said = unit.manifest.data_digests.get("rows")
        problems = [] if digest == said else [f"{ROWS} has digest {digest[:16]}…, the manifest {str(said)[:16]}…"]
        if unit.has(DATA_DIGESTS) and unit.json(DATA_DIGESTS) != unit.manifest.data_digests:
            problems.append(f"{DATA_DIGESTS} differs from the manifest")
        if unlearned := [row["id"] for row in kept if row["supervised_tokens"] < 1]:
            problems.append(f"rows without a supervised token: {several(unlearned)}")
        if unlike := [row["id"] for row in kept if not _turns_agree(row, learns_every_turn(unit))]:
            problems.append("learned turns that do not add up to the row's supervised tokens, or that the recipe does "
                            f"not ask for: {several(unlike)}")
        yield judged(problems, f"{len(kept):,} rows", unit)
    return each_run(record, find)


@check("consistency.order", level=1, title="every step's batch is the one that seed and row index imply")
def order(record: Record) -> Iterator[CheckFinding]:
    """Plan the epochs again from ids, lengths and seed, and compare each step's batch digest."""
    def find(unit: Unit) -> Iterator[CheckFinding]:
        if draws(unit):
            return
        if len(unit.metrics) * unit.manifest.global_batch > MAX_SEQUENCES:
            yield not_checked(f"more than {MAX_SEQUENCES:,} sequences", unit)
            return
        batches = batches_of(unit)
        # Row digests are enough: a batch's digest is over those of its rows, so the tokens need not be in the record.
        digests = {row["id"]: row["digest"] for row in kept_rows(unit)}
        problems, epoch = [], 0
        for line, position in positions(unit, batches):
            epoch = position.epoch
            if batches.digest_at(position, digests) != line.get("batch_digest"):
                problems.append(f"step {line.get('step')}: another batch than seed and row index imply")
        yield judged(problems, f"{len(unit.metrics)} batches of seed {unit.manifest.seed}, to epoch {epoch}", unit)
    return each_run(record, find)


@check("consistency.disjoint", level=1, title="no question of an evaluation was trained on")
def disjoint(record: Record) -> Iterator[CheckFinding]:
    """Questions compared in lower case with single spaces, ids as they stand."""
    def find(unit: Unit) -> Iterator[CheckFinding]:
        run = unit.parent or _origin(record, unit)
        if run is None:
            yield not_checked("the run that it was made from is not here", unit, blocking=False)
            return
        from workings.data.rows import prompt_digest
        # Digests of the normalised questions stand in the row index, so that nobody needs the data to look for leaks.
        rows = run.lines(PROMPTS) if draws(run) else kept_rows(run)
        trained = {digest for row in rows if row.get("status", "kept") == "kept" for digest in _question_digests(row)}
        if not all(isinstance(digest, str) for digest in trained):
            yield not_checked(f"the index of {run.title} has no digests of questions", unit)
            return
        asked = {str(row.get("id")): str(row.get("prompt", "")) for row in unit.lines(PREDICTIONS)}
        both = sorted(name for name, prompt in asked.items() if prompt_digest(prompt) in trained)
        problems = [f"{len(both)} of {len(asked)} questions were trained on: {several(both)}"] if both else []
        yield judged(problems, f"{len(asked)} questions, none of them among {len(trained):,} trained ones", unit)
    return each(record.measurements, find)


def learns_from_pairs(unit: Unit) -> bool:
    """Whether a run says that it learned from preference pairs."""
    algorithm = unit.manifest.config_snapshot.get("algorithm")
    return isinstance(algorithm, dict) and algorithm.get("name") == "dpo"


def learns_every_turn(unit: Unit) -> bool:
    """Whether a run says that it learned every turn of the assistant; earlier versions learned the last one only."""
    data = unit.manifest.config_snapshot.get("data")
    return isinstance(data, dict) and data.get("learn") == "all"


def _turns_agree(row: dict[str, Any], every_turn: bool) -> bool:
    """Whether the turns that a row of the index learned, where it learned several, are its supervised tokens."""
    if "learned_turns" not in row:
        return True
    turns = row["learned_turns"]
    if not every_turn or not isinstance(turns, list) or len(turns) < 2 or len(_question_digests(row)) != len(turns):
        return False
    # Something that is not learned stands before each turn, and the last turn ends the row.
    borders = [0, *(border for turn in turns if isinstance(turn, list) and len(turn) == 2 for border in turn)]
    return (len(borders) == 1 + 2 * len(turns) and all(type(border) is int for border in borders)
            and all(before < after for before, after in pairwise(borders)) and borders[-1] == row["tokens"]
            and sum(end - start for start, end in turns) == row["supervised_tokens"])


def _question_digests(row: dict[str, Any]) -> list[str | None]:
    """Of every question whose answer a row learned, the last one first; None where the row does not say it."""
    earlier = row.get("earlier_prompt_digests", [])
    found = [row.get("prompt_digest"), *(earlier if isinstance(earlier, list) else [None])]
    return [digest if isinstance(digest, str) and digest else None for digest in found]


def kept_rows(unit: Unit) -> list[dict[str, Any]]:
    """Rows of the index that were trained on. Raises `RecordError` for a line without id, digest or counts."""
    kept = [row for row in unit.lines(ROWS) if row.get("status", "kept") == "kept"]
    for number, row in enumerate(kept, start=1):
        if not isinstance(row.get("id"), str) or not isinstance(row.get("digest"), str):
            raise RecordError(f"{unit.full(ROWS)}, line {number}: no id or no digest")
        for name in ("tokens", "supervised_tokens"):
            if type(row.get(name)) is not int or not 0 <= row[name] <= MAX_LENGTH:
                raise RecordError(f"{unit.full(ROWS)}, line {number}: {name} is no count")
    # Digests are looked up by id: of two rows with one id, one would never be compared.
    if len({row["id"] for row in kept}) != len(kept):
        raise RecordError(f"{unit.full(ROWS)}: an id stands there twice")
    return kept


def positions(unit: Unit, batches: "Batches") -> Iterator[tuple[dict[str, Any], "Position"]]:
    """Each step's line, and where in the data its batch begins."""
    from workings.data.batches import Position
    epoch, number = 0, 0
    for line in unit.metrics:
        # Resumes need no care here: a resumed run goes on at the position where the kept steps end.
        if number == batches.batches_in_epoch(epoch):
            epoch, number = epoch + 1, 0
        yield line, Position(epoch, number)
        number += 1


def batches_of(unit: Unit) -> "Batches":
    """The plan of batches from lengths alone: tokens are not in the record and not needed for the order."""
    import numpy as np

    from workings.data.batches import Batches
    from workings.data.pair_rows import PairRows
    from workings.data.rows import Row, RowSet

    snapshot, mesh = unit.manifest.config_snapshot, unit.manifest.mesh
    try:
        data_config = DataConfig.model_validate(snapshot["data"])
        micro_batch, accumulation = snapshot["batch"]["micro_batch"], snapshot["batch"]["accumulation"]
    except (ValidationError, KeyError, TypeError) as error:
        raise RecordError(f"config_snapshot: data and batch cannot be read ({str(error)[:80]})") from None
    devices = mesh.get("fsdp", 1)
    if any(type(value) is not int or value < 1 for value in (micro_batch, accumulation, devices)):
        raise RecordError("config_snapshot: micro_batch, accumulation and fsdp are no counts")
    if learns_from_pairs(unit) and (data_config.packing != "none" or micro_batch % 2):
        raise RecordError("config_snapshot: pairs that are packed, or micro batches of half a pair")
    # Checked before planning: an invented batch size would plan other batches, and blame every step for it.
    if micro_batch * accumulation * devices != unit.manifest.global_batch:
        raise RecordError(f"{micro_batch} rows x {accumulation} x {devices} devices is not the manifest's global batch "
                          f"of {unit.manifest.global_batch}")
    if unit.manifest.global_batch > MAX_GLOBAL_BATCH:
        raise RecordError(f"a global batch of {unit.manifest.global_batch:,} rows")
    zero = np.zeros(1, np.int32)
    kept = kept_rows(unit)
    lengths = [row["tokens"] for row in kept]
    if not lengths or max(lengths) > data_config.max_length or min(lengths) < 1:
        raise RecordError(f"{unit.full(ROWS)}: no rows, or rows longer than data.max_length or empty")
    # Lengths without memory: a view of one zero, as long as the row says.
    rows = tuple(Row(row["id"], np.broadcast_to(zero, (row["tokens"],)), zero, "") for row in kept)
    found = RowSet(rows, (), 0, data_config.max_length)
    return Batches(PairRows(found) if learns_from_pairs(unit) else found, seed=unit.manifest.seed,
                   rows_per_micro_batch=micro_batch * devices, accumulation=accumulation, data_config=data_config)


def _origin(record: Record, unit: Unit) -> Unit | None:
    origin = unit.seal["made_from"]
    return next((run for run in record.runs if run.has(SUMS) and run.root == origin), None)
