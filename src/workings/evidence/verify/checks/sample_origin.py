"""Level 1: samples that a run was trained on are kept samples of the recorded model, as far as both are here."""

from collections.abc import Iterator
from typing import Any

from workings.errors import RecordError
from workings.evidence.verify import tree as trees
from workings.evidence.verify.checks.data_order import kept_rows
from workings.evidence.verify.record import MAX_JSON_BYTES, Record, Unit
from workings.evidence.verify.registry import check, finding_from, join_first, not_checked
from workings.evidence.verify.result import CheckFinding
from workings.record import jsonl
from workings.record.canonical import line
from workings.record.digest import bytes_digest
from workings.record.layout import EVALUATION_CONFIG, KEPT, PAIRS, ROWS, SUMS
from workings.record.manifest import DRAWN_FROM
from workings.record.untrusted_files import parsed_bytes, refuse_too_large


@check("consistency.drawn_from")
def drawn_from(unit: Unit) -> Iterator[CheckFinding]:
    """The training file against the kept samples and the run that they are from."""
    recorded_counts = unit.manifest.facts.get(DRAWN_FROM)
    rows = _training_file(unit) if recorded_counts is not None or unit.record.samples else None
    if rows is None:
        if recorded_counts is not None:
            yield not_checked("the file of traces that it learned from is not here", unit, blocking=False)
        return
    by_source: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if DRAWN_FROM in row:
            by_source.setdefault(str(row[DRAWN_FROM]), []).append(row)
    counts = {source: len(source_rows) for source, source_rows in by_source.items()}
    if recorded_counts is None and not counts:
        return
    # A smoke run takes the first lines of its file only.
    problems = [] if counts == recorded_counts or unit.manifest.facts.get("smoke") is True else [
        f"the manifest names {str(recorded_counts)[:80]}, the file {str(counts)[:80]}"]
    problems += _row_problems(unit, rows)
    kept_lines, missing = _kept_samples(unit.record), 0
    for source, source_rows in by_source.items():
        if source not in kept_lines:
            missing += len(source_rows)
            continue
        if others := [str(row.get("id")) for row in source_rows if line(row) not in kept_lines[source]]:
            problems.append(f"not among the kept samples of {source[:16]}…: {join_first(others)}")
    roots_here = {run.root for run in unit.record.runs if run.has(SUMS)}
    if not problems and (missing or not by_source.keys() <= roots_here):
        yield not_checked(f"{missing} of its samples, or a run they came from, are not here", unit, blocking=False)
        return
    yield finding_from(problems, f"{sum(counts.values())} of {len(rows)} were sampled and kept by "
                                 + ", ".join(f"{source[:16]}…" for source in by_source), unit)


def _training_file(unit: Unit) -> list[dict[str, Any]] | None:
    """Lines of the run's training file, found by its digest next to the units or in the pack; None if missing."""
    digest = unit.manifest.data_digests.get("traces")
    paths = [entry.name for entry in unit.record.unowned_entries if entry.kind == "file"]
    paths += [pack.tree_path(name) for pack in unit.record.packs for name in pack.files]
    # By digest and not by name: next to runs anybody names such files, and in a pack they are named by their digests.
    for path in paths:
        if not path.endswith(".jsonl"):
            continue
        try:
            data = trees.read(unit.tree, path, MAX_JSON_BYTES)
            refuse_too_large(parsed_bytes(data, lines=True), path)
        except RecordError:
            continue  # too large to be read: treated as absent
        if bytes_digest(data) == digest:
            return jsonl.parse(data, path)[0]
    return None


def _row_problems(unit: Unit, rows: list[dict[str, Any]]) -> list[str]:
    """Problems of the trained rows: each is in the file, with the same question."""
    from workings.data.rows import prompt_digest
    asked = {str(row.get("id")): prompt_digest(str(row.get("prompt", ""))) for row in rows}
    # A pair gives two rows, named after it.
    trained = [(row["id"].removesuffix("/chosen").removesuffix("/rejected"), row.get("prompt_digest"))
               for row in kept_rows(unit)] if unit.has(ROWS) else []
    other = [name for name, digest in trained if asked.get(name) != digest]
    return [f"rows that are not in the file that it learned from: {join_first(other)}"] if other else []


def _kept_samples(record: Record) -> dict[str, set[bytes]]:
    """Canonical lines of the kept samples, by the digest of the model that they are from."""
    from workings.samples.candidates import SampleOrigin
    kept: dict[str, set[bytes]] = {}
    for unit in record.samples:
        rows = [*unit.lines(KEPT), *(unit.lines(PAIRS) if unit.has(PAIRS) else [])]
        origin = SampleOrigin.from_config(unit.json(EVALUATION_CONFIG))
        kept.setdefault(origin.drawn_from, set()).update(line(row) for row in rows)
    return kept
