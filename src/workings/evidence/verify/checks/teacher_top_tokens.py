"""Levels 1 and 2: top tokens of the teacher of a run that distilled on traces, and the log's means of them.

No weights are needed. Whether they are the teacher's takes its weights: a replay computes them again.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workings.errors import RecordError
from workings.evidence.verify.checks.data_order import batches_of, kept_rows, only_if_few_sequences, planned_steps
from workings.evidence.verify.checks.tensors import read_header
from workings.evidence.verify.learning import records
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import check, every_run, finding_from
from workings.evidence.verify.result import CheckFinding
from workings.objectives.top_tokens import MAX_TOKENS, MIN_REST
from workings.record.coverage import REPLAYED, checked, partly, record_file
from workings.record.layout import CONFIG, MODEL_SHAPE, TOP_TOKENS, top_tokens_file

if TYPE_CHECKING:
    from workings.data.top_tokens import TopTokenFiles, TopTokensOfRow

TOLERANCE = 1e-4
"""Tolerance for a sum of float32 probabilities, and for a mean of them in the log."""
ROW_BYTES = 400
"""Memory of a row's summary."""


@dataclass(frozen=True, kw_only=True)
class _RowSummary:
    """Sums over a row's top tokens; the numbers themselves are not kept, as all together may not fit the memory."""

    positions: int
    mass: float
    """Sum over positions of the probability of the top tokens."""
    entropy: float
    """Sum over positions of the entropy of these and the rest."""
    problems: tuple[str, ...]


record_file("run", "train/top_tokens/*.safetensors",
            checked("header", "consistency.top_tokens", "the rows, the recipe, the model's vocabulary"),
            partly("numbers", "consistency.top_tokens", "they are distributions, with the log's means; " + REPLAYED))
record_file("run", "train/metrics.jsonl",
            checked("teacher_mass teacher_entropy", "recompute.top_tokens", "what the teacher said", optional=True))


@check("consistency.top_tokens", level=1, title="the teacher's top tokens are a distribution, for every learned row",
       units=every_run, when=records(TOP_TOKENS), precondition=only_if_few_sequences,
       example="two probabilities of a position that are larger than 1 together")
def top_tokens(unit: Unit) -> Iterator[CheckFinding]:
    """Number of positions of the planned rows; different tokens of the vocabulary, in order; sums of at most 1."""
    if not unit.metrics:  # the run ended before the teacher's tokens were complete, and before any step
        return
    summaries = _row_summaries(unit)
    problems = [f"row {name[:60]!r}: {what}" for name, row in summaries.items() for what in row.problems]
    files = {name for name in unit.files if name.startswith(TOP_TOKENS + "/")}
    if more := sorted(files - {top_tokens_file(number) for number in range(len(_files(unit).parts))}):
        problems.append(f"{more[0]}: no batch belongs to it")
    positions = sum(row.positions for row in summaries.values())
    yield finding_from(problems, f"{positions:,} positions of {len(summaries):,} rows", unit)


@check("recompute.top_tokens", level=2, title="the log's teacher is the one that was recorded", units=every_run,
       when=records(TOP_TOKENS), precondition=only_if_few_sequences,
       example="another mass of the teacher's top tokens in a step's line")
def logged_teacher(unit: Unit) -> Iterator[CheckFinding]:
    """Mean probability of the top tokens and mean entropy of each step again; no divergence is below 0."""
    summaries, batches, problems = _row_summaries(unit) if unit.metrics else {}, batches_of(unit), []
    for line, planned in planned_steps(unit):
        subject = f"step {line.get('step')}"
        names = [name for sequence in batches.row_ids(planned.at) for name in sequence]
        if missing := [name for name in names if name not in summaries]:
            problems.append(f"{subject}: nothing was said of {missing[0][:60]!r}")
            continue
        # Means of a step are over positions and not over rows, so that long rows count more.
        count = sum(summaries[name].positions for name in names)
        for key, value in (("teacher_mass", math.fsum(summaries[name].mass for name in names) / count),
                           ("teacher_entropy", math.fsum(summaries[name].entropy for name in names) / count)):
            logged = line.get(key)
            if not isinstance(logged, float | int) or not abs(logged - value) <= TOLERANCE * (1 + abs(value)):
                problems.append(f"{subject}: {key} {str(logged)[:20]}, the teacher's is {value:.6g}")
        # What is minimized is a divergence between two distributions, up to rounding never negative.
        loss = line.get("loss")
        if isinstance(loss, float | int) and loss < -TOLERANCE:
            problems.append(f"{subject}: loss {loss:g}, and no divergence is below 0")
    yield finding_from(problems, f"{len(unit.metrics)} steps", unit)


def _top_k(unit: Unit) -> int:
    count = unit.manifest.config["algorithm"].get("top_k")
    if type(count) is not int or not 1 <= count <= MAX_TOKENS:
        raise RecordError(f"{CONFIG}: algorithm.top_k is no count of tokens")
    return count


def _files(unit: Unit) -> "TopTokenFiles":
    from workings.data.top_tokens import TopTokenFiles
    counts = {row["id"]: int(row["supervised_tokens"]) for row in kept_rows(unit)}
    return TopTokenFiles(batches=batches_of(unit), steps=unit.manifest.planned_steps, counts=counts, count=_top_k(unit))


def _row_summaries(unit: Unit) -> dict[str, _RowSummary]:
    """Summaries by row id, cached; only one file of numbers is in memory at a time."""
    return unit.cached("top tokens", lambda: _read(unit))


def _read(unit: Unit) -> dict[str, _RowSummary]:
    files, vocabulary = _files(unit), unit.json(MODEL_SHAPE)["vocab_size"]
    summaries: dict[str, _RowSummary] = {}
    for number, part in enumerate(files.parts):
        name = top_tokens_file(number)
        read_header(unit, name)  # refuses a file with gaps, or with more than tensors
        rows = files.read(unit.read(name), part)
        summaries |= {row: _summary(top_tokens, vocabulary) for row, top_tokens in rows.items()}
        unit.tree.cache.reserve(ROW_BYTES * len(rows))
    return summaries


def _summary(row: "TopTokensOfRow", vocabulary: int) -> _RowSummary:
    import numpy as np

    tokens, log_probs = row.tokens_NK, row.log_probs_NK.astype(np.float64)
    with np.errstate(over="ignore"):  # a logarithm of a probability that is none may be of any size
        probabilities = np.exp(log_probs)
    mass, ordered = probabilities.sum(-1), np.sort(tokens, -1)
    wrong = {
        "a token that is none": ((tokens < 0) | (tokens >= vocabulary)).any(),
        "a token twice": (ordered[:, 1:] == ordered[:, :-1]).any(),
        "not the most likely one first": (log_probs[:, 1:] > log_probs[:, :-1]).any(),
        "probabilities above 1": (mass > 1 + TOLERANCE).any()}
    rest = np.clip(1 - mass, MIN_REST, 1)
    entropy = 0.0 if wrong["probabilities above 1"] else float(
        -(probabilities * log_probs).sum() - (rest * np.log(rest)).sum())
    return _RowSummary(positions=len(tokens), mass=float(mass.sum()), entropy=entropy,
                      problems=tuple(problem for problem, holds in wrong.items() if holds))
