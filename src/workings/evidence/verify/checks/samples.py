"""Levels 1 and 2: seeds of samples follow from the evaluation's seed, the kept samples from the rules.

Samples that a run was trained on are kept samples of the recorded model, as far as both are here.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from workings.errors import RecordError, RequestError
from workings.evidence.verify.checks.data_order import kept_rows
from workings.evidence.verify.checks.evaluation_lines import are_numbered
from workings.evidence.verify.checks.evaluations import differences
from workings.evidence.verify.record import MAX_JSON_BYTES, Record, Unit
from workings.evidence.verify.registry import Found, check, join_first, not_checked
from workings.record import jsonl
from workings.record.canonical import line, loads
from workings.record.digest import bytes_digest
from workings.record.layout import EVALUATION_CONFIG, KEPT, PAIRS, PREDICTIONS, ROWS, SELECTION, SUMS
from workings.record.manifest import DRAWN_FROM
from workings.record.storage import parsed_bytes, refuse_too_large
from workings.record.values import is_absent

if TYPE_CHECKING:
    from workings.samples.selection import PairRule, Selection


@check("consistency.answers", "evaluations")
def seeds(unit: Unit) -> Found:
    """Number and order of the completions of each item, and the seed of every sampled one."""
    from workings.evaluation.run import sample_seed
    config, rows = unit.json(EVALUATION_CONFIG), unit.lines(PREDICTIONS)
    decoding = config.get("decoding") if isinstance(config, dict) else None
    if not isinstance(decoding, dict) or is_absent(decoding):  # completions from elsewhere
        return None
    samples_per_item, temperature = decoding.get("samples", 1), decoding.get("temperature", 0)
    if not isinstance(samples_per_item, int) or not isinstance(temperature, int | float):
        raise RecordError(f"{unit.tree_path(EVALUATION_CONFIG)}: samples or a temperature that is no number")
    if temperature > 0 and not isinstance(decoding.get("seed"), int):
        raise RecordError(f"{unit.tree_path(EVALUATION_CONFIG)}: completions are sampled, but the seed is no number")
    if any("id" not in row for row in rows):
        raise RecordError(f"{unit.tree_path(PREDICTIONS)}: a line without an id")
    # `groupby` joins neighbours only: separated samples of an item give two short groups.
    for name, group in groupby(rows, key=lambda row: str(row["id"])):
        numbers = [row.get("sample") for row in group]
        if not are_numbered(numbers, samples_per_item):
            yield f"{name[:60]}: samples {str(numbers[:8])[1:-1]}, asked for {samples_per_item}"
    for row in rows:
        if temperature > 0 and (not isinstance(row.get("sample"), int) or row.get("seed") != sample_seed(
                decoding["seed"], str(row["id"]), row["sample"])):
            yield f"{str(row['id'])[:60]}: sample {row.get('sample')} from seed {row.get('seed')}, another follows"
        elif temperature <= 0 and "seed" in row:
            yield f"{str(row['id'])[:60]}: a seed, but nothing was sampled"
    return f"{len(rows)} completions of seed {decoding.get('seed')}"


@check("recompute.selection", "samples")
def selection(unit: Unit) -> Found:
    """Prompts solved never, sometimes, always; samples kept and left out; pairs; that the unit is in no run."""
    recorded, rows = unit.json(SELECTION), unit.lines(PREDICTIONS)
    counts, scores = recorded["counts"], {(str(row["id"]), row["sample"]): row["score"] for row in rows}
    # Samples of a prompt are neighbours in the file.
    by_prompt = [[row["score"] == 1 for row in group] for _, group in groupby(rows, key=lambda row: row["id"])]
    kept_ids = [str(row["id"]).rpartition("/") for row in unit.lines(KEPT)]
    never, always = sum(not any(right) for right in by_prompt), sum(all(right) for right in by_prompt)
    by_outcome = {"prompts": len(by_prompt), "never": never, "always": always, "samples": len(rows),
                  "kept": len(kept_ids), "with_kept": len({name for name, _, _ in kept_ids}),
                  "sometimes": len(by_prompt) - never - always}
    yield from (f"{name} is {str(counts.get(name))[:20]}, the files give {value}"
                for name, value in by_outcome.items() if counts.get(name) != value)
    if sum(counts["left_out"].values()) != len(rows) - len(kept_ids):
        yield f"{len(rows) - len(kept_ids)} samples are not kept, {counts['left_out']} were left out"
    yield from (f"{name[:60]}/{number[:20]} is kept, and is no sample, or a wrong one" for name, _, number in kept_ids
                if not number.isdecimal() or (name, int(number)) not in scores
                or (recorded["selection"]["keep"] == "correct" and scores[name, int(number)] != 1))
    pairs = recorded["pairs"]
    if is_absent(pairs) and unit.has(PAIRS):
        yield f"{PAIRS} is there, {SELECTION} has none"
    elif not is_absent(pairs) and pairs["made"] != (made := len(unit.lines(PAIRS))):
        yield f"{PAIRS} has {made} pairs, {SELECTION} names {str(pairs['made'])[:20]}"
    # Samples may be of trained questions, so they must not be among evaluations.
    if unit.parent is not None:
        yield "samples are next to a run, not among its evaluations"
    if unit.json(EVALUATION_CONFIG).get("source") != {"kind": "generated"}:
        yield "completions that the model did not sample"
    return f"{len(kept_ids)} of {len(rows)} samples of {len(by_prompt)} prompts"


@check("recompute.selection", "samples")
def selected(unit: Unit) -> Found:
    """The kept samples and the pairs, regenerated byte for byte; the counts."""
    from workings.samples.unit import selection_files
    recorded = unit.json(SELECTION)
    prompts = [list(group) for _, group in groupby(unit.lines(PREDICTIONS), key=lambda row: row["id"])]
    try:
        expected_files = selection_files(lambda: prompts, unit.json(EVALUATION_CONFIG), *_rules(recorded))
    except RequestError as error:
        raise RecordError(f"{unit.tree_path(SELECTION)}: {error.given[:120]}") from None
    expected_counts = loads(expected_files.pop(SELECTION))
    yield from (f"{name} is not what the rules make of the predictions" for name, data in expected_files.items()
                if unit.read(name) != data)
    # The rules themselves are not compared: a later version may have more of them.
    yield from (f"{SELECTION}: {place}" for name in ("counts", "pairs")
                for place in differences(recorded[name], expected_counts[name], name))
    return " and ".join(sorted(expected_files))


def _rules(recorded: dict[str, Any]) -> "tuple[Selection, PairRule | None]":
    """The recorded rules. Raises `RequestError` for impossible ones."""
    from workings.samples.selection import PairRule, Selection
    pairs = recorded["pairs"]
    return Selection(**recorded["selection"]), None if is_absent(pairs) else PairRule(
        rule=pairs["rule"], most_per_prompt=pairs["most_per_prompt"])


# --- what a run learned of samples -----------------------------------------------------------------------------------

@check("consistency.drawn_from")
def drawn_from(unit: Unit) -> Found:
    """The training file against the kept samples and the run that they are from."""
    recorded_counts = unit.manifest.facts.get(DRAWN_FROM)
    rows = _training_file(unit) if recorded_counts is not None or unit.record.samples else None
    if rows is None:
        return None if recorded_counts is None else not_checked(
            "the file of traces that it learned from is not here", blocking=False)
    by_source: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if DRAWN_FROM in row:
            by_source.setdefault(str(row[DRAWN_FROM]), []).append(row)
    counts = {source: len(source_rows) for source, source_rows in by_source.items()}
    if recorded_counts is None and not counts:
        return None
    # A smoke run takes the first lines of its file only.
    if counts != recorded_counts and unit.manifest.facts.get("smoke") is not True:
        yield f"the manifest names {str(recorded_counts)[:80]}, the file {str(counts)[:80]}"
    yield from _row_problems(unit, rows)
    kept_lines, missing = _kept_samples(unit.record), 0
    for source, source_rows in by_source.items():
        if source not in kept_lines:
            missing += len(source_rows)
        elif others := [str(row.get("id")) for row in source_rows if line(row) not in kept_lines[source]]:
            yield f"not among the kept samples of {source[:16]}…: {join_first(others)}"
    roots_here = {run.root for run in unit.record.runs if run.has(SUMS)}
    if missing or not by_source.keys() <= roots_here:
        return not_checked(f"{missing} of its samples, or a run they came from, are not here", blocking=False)
    return (f"{sum(counts.values())} of {len(rows)} were sampled and kept by "
            + ", ".join(f"{source[:16]}…" for source in by_source))


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
            data = unit.tree.read(path, MAX_JSON_BYTES)
            refuse_too_large(parsed_bytes(data, lines=True), path)
        except RecordError:
            continue  # too large to be read: treated as absent
        if bytes_digest(data) == digest:
            return jsonl.parse(data, path)[0]
    return None


def _row_problems(unit: Unit, rows: list[dict[str, Any]]) -> Iterator[str]:
    """Problems of the trained rows: each is in the file, with the same question."""
    from workings.data.rows import prompt_digest
    asked = {str(row.get("id")): prompt_digest(str(row.get("prompt", ""))) for row in rows}
    # A pair gives two rows, named after it.
    trained = [(row["id"].removesuffix("/chosen").removesuffix("/rejected"), row.get("prompt_digest"))
               for row in kept_rows(unit)] if unit.has(ROWS) else []
    if other := [name for name, digest in trained if asked.get(name) != digest]:
        yield f"rows that are not in the file that it learned from: {join_first(other)}"


def _kept_samples(record: Record) -> dict[str, set[bytes]]:
    """Canonical lines of the kept samples, by the digest of the model that they are from."""
    from workings.samples.selection import SampleOrigin
    kept: dict[str, set[bytes]] = {}
    for unit in record.samples:
        rows = [*unit.lines(KEPT), *(unit.lines(PAIRS) if unit.has(PAIRS) else [])]
        origin = SampleOrigin.from_config(unit.json(EVALUATION_CONFIG))
        kept.setdefault(origin.drawn_from, set()).update(line(row) for row in rows)
    return kept
