"""Level 1: the teacher of a run with distillation is the one that is named, and its top tokens are distributions.

No weights are needed. Whether the log probabilities are the teacher's, only a replay can tell.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from workings.data.top_tokens import TopTokenFiles, TopTokensOfRow
from workings.errors import RecordError
from workings.evidence.verify.checks.data_order import batches_of, kept_rows, planned_steps, row_ids
from workings.evidence.verify.checks.tensors import read_header
from workings.evidence.verify.record import Unit, computed_once
from workings.evidence.verify.registry import Found, check, contradictions, is_number, join_first, not_checked, records
from workings.objectives.top_tokens import MAX_TOKENS, MIN_REST
from workings.record.digest import is_digest, json_digest
from workings.record.layout import CHECKPOINTS, CONFIG, MODEL_SHAPE, TEACHER, TOP_TOKENS, top_tokens_file

TOLERANCE = 1e-4
"""Tolerance for a sum of float32 probabilities, and for a mean of them in the log."""
ROW_BYTES = 400
"""Memory of a row's summary."""


@check("consistency.teacher", when=records(TEACHER))
def teacher(unit: Unit) -> Found:
    """Digest and precision of the teacher (a run, or an id with a revision); the run's root, if it is verified too."""
    facts = unit.json_object(TEACHER)
    problems = [*_fact_problems(unit, facts)]
    if problems:
        yield from problems
        return None
    root = facts.get("root", "")
    for other, run in unit.record.by_root.items():
        if other == root:
            yield from _run_problems(run, facts)
        elif run.is_run and run.manifest.name == facts.get("run"):
            # No failure: names are not unique, and the true teacher may be elsewhere.
            yield not_checked(f"{run.title} has the teacher's name and another root, {other[:16]}…: it is not the run "
                              "that was learned from", blocking=False)
    if root:
        return f"run {facts['run']}, root {root[:16]}…, in {facts['precision']}"
    return f"{facts['id']} at {facts['revision']}, in {facts['precision']}"


def _run_problems(run: Unit, facts: dict[str, Any]) -> Iterator[str]:
    expected = {"run": run.manifest.name, "tokenizer": run.manifest.data_digests.get("tokenizer", facts["tokenizer"])}
    yield from contradictions(TEACHER, facts, expected, "of this root it is")
    if others := [name for name, digest in facts["weights"].items() if run.sums.get(name) != digest]:
        yield f"{TEACHER}: {join_first(others)} with another digest than in the run of this root"


def _fact_problems(unit: Unit, facts: dict[str, Any]) -> Iterator[str]:
    digest, algorithm = unit.manifest.data_digests.get("teacher"), unit.manifest.config["algorithm"]
    if digest != json_digest(facts):
        yield f"{TEACHER} has digest {json_digest(facts)[:16]}…, the manifest {str(digest)[:16]}…"
    if not facts["weights"]:
        yield f"{TEACHER} names no weights"
    base = facts.get("base", {})  # of a teacher with adapters: what they were trained on
    digests = [*facts["weights"].values(), *base.get("weights", {}).values(), facts.get("tokenizer")]
    if "root" in facts:
        digests.append(facts["root"])
    if not all(map(is_digest, digests)):
        yield f"{TEACHER}: it has an invalid digest"
    name = facts.get("run") if "root" in facts else facts.get("id")
    if not isinstance(name, str):
        yield f"{TEACHER} says neither which run nor which weights"
    checkpoint = facts.get("checkpoint")
    if checkpoint is not None and any(not name.startswith(f"{CHECKPOINTS}/{checkpoint}/") for name in facts["weights"]):
        yield f"{TEACHER}: weights of another checkpoint than {str(checkpoint)[:40]}"
    yield from contradictions(TEACHER, facts, {"precision": algorithm.get("teacher_precision")}, "the recipe's is")


@dataclass(frozen=True, kw_only=True)
class _RowSummary:
    """Sums over a row's top tokens, which themselves may not fit into memory."""

    positions: int
    mass: float
    """Sum over positions of the probability of the top tokens."""
    entropy: float
    """Sum over positions of the entropy of these and the rest."""
    problems: tuple[str, ...]


@check("consistency.top_tokens", when=records(TOP_TOKENS))
def top_tokens(unit: Unit) -> Found:
    """Number of positions of the planned rows; different tokens of the vocabulary, in order; sums of at most 1."""
    if not unit.metrics:  # the run ended before the teacher's tokens were complete, and before any step
        return None
    summaries = _row_summaries(unit)
    yield from (f"row {name[:60]!r}: {what}" for name, row in summaries.items() for what in row.problems)
    files = {name for name in unit.files if name.startswith(TOP_TOKENS + "/")}
    expected_files = {top_tokens_file(number) for number in range(len(_files(unit).parts))}
    yield from (f"{name}: no batch belongs to it" for name in sorted(files - expected_files))
    return f"{sum(row.positions for row in summaries.values()):,} positions of {len(summaries):,} rows"


@check("recompute.top_tokens", when=records(TOP_TOKENS))
def logged_teacher(unit: Unit) -> Found:
    """Mean probability of the top tokens and mean entropy of each step again; no divergence is below 0."""
    summaries = _row_summaries(unit) if unit.metrics else {}
    for planned in planned_steps(unit):
        line, names = planned.line, row_ids(batches_of(unit), planned.at)
        subject = f"step {line.get('step')}"
        if missing := [name for name in names if name not in summaries]:
            yield f"{subject}: no top tokens of {missing[0][:60]!r}"
            continue
        # Means of a step are over positions and not over rows, so that long rows count more.
        rows = [summaries[name] for name in names]
        positions = sum(row.positions for row in rows)
        for key, value in (("teacher_mass", math.fsum(row.mass for row in rows) / positions),
                           ("teacher_entropy", math.fsum(row.entropy for row in rows) / positions)):
            logged = line.get(key)
            if not is_number(logged) or not abs(logged - value) <= TOLERANCE * (1 + abs(value)):
                yield f"{subject}: {key} {str(logged)[:20]}, the teacher's is {value:.6g}"
        if line["loss"] < -TOLERANCE:
            yield f"{subject}: loss {line['loss']:g}, and no divergence is below 0"
    return f"{len(unit.metrics)} steps"


def _files(unit: Unit) -> TopTokenFiles:
    count = unit.manifest.config["algorithm"].get("top_k")
    if type(count) is not int or not 1 <= count <= MAX_TOKENS:
        raise RecordError(f"{CONFIG}: algorithm.top_k is no count of tokens")
    counts = {row["id"]: int(row["supervised_tokens"]) for row in kept_rows(unit)}
    return TopTokenFiles(batches=batches_of(unit), steps=unit.manifest.planned_steps, counts=counts, count=count)


@computed_once("top tokens")
def _row_summaries(unit: Unit) -> dict[str, _RowSummary]:
    """Summaries by row id, cached; only one file of numbers is in memory at a time."""
    files, vocabulary = _files(unit), unit.json(MODEL_SHAPE)["vocab_size"]
    summaries: dict[str, _RowSummary] = {}
    for number, part in enumerate(files.parts):
        name = top_tokens_file(number)
        read_header(unit, name)  # refuses a file with gaps, or with more than tensors
        rows = files.read(unit.read(name), part)
        summaries |= {row: _summary(top_tokens, vocabulary) for row, top_tokens in rows.items()}
        unit.tree.cache.reserve(ROW_BYTES * len(rows))
    return summaries


def _summary(row: TopTokensOfRow, vocabulary: int) -> _RowSummary:
    tokens, log_probs = row.tokens_NK, row.log_probs_NK.astype(np.float64)
    with np.errstate(over="ignore"):  # the logarithm of an invalid probability may have any size
        probabilities = np.exp(log_probs)
    mass, ordered = probabilities.sum(-1), np.sort(tokens, -1)
    wrong = {
        "an invalid token": ((tokens < 0) | (tokens >= vocabulary)).any(),
        "a token twice": (ordered[:, 1:] == ordered[:, :-1]).any(),
        "not the most likely one first": (log_probs[:, 1:] > log_probs[:, :-1]).any(),
        "probabilities above 1": (mass > 1 + TOLERANCE).any()}
    entropy = 0.0
    if not wrong["probabilities above 1"]:
        rest = np.clip(1 - mass, MIN_REST, 1)
        entropy = float(-(probabilities * log_probs).sum() - (rest * np.log(rest)).sum())
    return _RowSummary(positions=len(tokens), mass=float(mass.sum()), entropy=entropy,
                      problems=tuple(problem for problem, holds in wrong.items() if holds))
