"""Levels 1 and 2: seeds of samples follow from the evaluation's seed, and the kept samples from the rules."""

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from workings.errors import RecordError, RequestError
from workings.evidence.verify.checks.evaluation_lines import are_numbered
from workings.evidence.verify.checks.evaluations import differences
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import check, every_evaluation, finding_from
from workings.evidence.verify.result import CheckFinding
from workings.record.canonical import loads
from workings.record.layout import EVALUATION_CONFIG, KEPT, PAIRS, PREDICTIONS, SELECTION
from workings.record.values import is_absent

if TYPE_CHECKING:
    from workings.samples.pairs import PairRule
    from workings.samples.selection import Selection


@check("consistency.answers", every_evaluation)
def seeds(unit: Unit) -> Iterator[CheckFinding]:
    """Number and order of the completions of each item, and the seed of every sampled one."""
    from workings.evaluation.run import sample_seed
    config, rows, problems = unit.json(EVALUATION_CONFIG), unit.lines(PREDICTIONS), []
    decoding = config.get("decoding") if isinstance(config, dict) else None
    if not isinstance(decoding, dict) or is_absent(decoding):  # completions from elsewhere
        return
    samples_per_item, temperature = decoding.get("samples", 1), decoding.get("temperature", 0)
    if not isinstance(samples_per_item, int) or not isinstance(temperature, int | float):
        raise RecordError(f"{unit.tree_path(EVALUATION_CONFIG)}: samples or a temperature that is no number")
    is_sampled = temperature > 0
    if is_sampled and not isinstance(decoding.get("seed"), int):
        raise RecordError(f"{unit.tree_path(EVALUATION_CONFIG)}: completions are sampled, but the seed is no number")
    if any("id" not in row for row in rows):
        raise RecordError(f"{unit.tree_path(PREDICTIONS)}: a line without an id")
    # `groupby` joins neighbours only: separated samples of an item give two short groups.
    for name, group in groupby(rows, key=lambda row: str(row["id"])):
        numbers = [row.get("sample") for row in group]
        if not are_numbered(numbers, samples_per_item):
            problems.append(f"{name[:60]}: samples {str(numbers[:8])[1:-1]}, asked for {samples_per_item}")
    if is_sampled:
        problems += [f"{str(row['id'])[:60]}: sample {row.get('sample')} from seed {row.get('seed')}, another "
                     "follows" for row in rows if not isinstance(row.get("sample"), int)
                     or row.get("seed") != sample_seed(decoding["seed"], str(row["id"]), row["sample"])]
    elif not is_sampled:
        problems += [f"{str(row['id'])[:60]}: a seed, but nothing was sampled" for row in rows if "seed" in row]
    yield finding_from(problems, f"{len(rows)} completions of seed {decoding.get('seed')}", unit)


@check("recompute.selection", lambda record: record.samples)
def selection(unit: Unit) -> Iterator[CheckFinding]:
    """Prompts solved never, sometimes, always; samples kept and left out; pairs; that the unit is in no run."""
    recorded, rows = unit.json(SELECTION), unit.lines(PREDICTIONS)
    counts, scores = recorded["counts"], {(str(row["id"]), row["sample"]): row["score"] for row in rows}
    # Samples of a prompt are neighbours in the file.
    by_prompt = [[row["score"] == 1 for row in group] for _, group in groupby(rows, key=lambda row: row["id"])]
    kept_ids = [str(row["id"]).rpartition("/") for row in unit.lines(KEPT)]
    by_outcome = {"prompts": len(by_prompt), "never": sum(not any(right) for right in by_prompt),
                  "always": sum(all(right) for right in by_prompt), "samples": len(rows), "kept": len(kept_ids),
                  "with_kept": len({name for name, _, _ in kept_ids})}
    by_outcome["sometimes"] = by_outcome["prompts"] - by_outcome["never"] - by_outcome["always"]
    problems = [f"{name} is {str(counts.get(name))[:20]}, the files give {value}"
                for name, value in by_outcome.items() if counts.get(name) != value]
    if sum(counts["left_out"].values()) != len(rows) - len(kept_ids):
        problems.append(f"{len(rows) - len(kept_ids)} samples are not kept, {counts['left_out']} were left out")
    problems += [f"{name[:60]}/{number[:20]} is kept, and is no sample, or a wrong one" for name, _, number in kept_ids
                 if not number.isdecimal() or (name, int(number)) not in scores
                 or (recorded["selection"]["keep"] == "correct" and scores[name, int(number)] != 1)]
    problems += [*_pair_problems(unit, recorded["pairs"]), *_location_problems(unit)]
    yield finding_from(problems, f"{len(kept_ids)} of {len(rows)} samples of {len(by_prompt)} prompts", unit)


@check("recompute.selection", lambda record: record.samples)
def selected(unit: Unit) -> Iterator[CheckFinding]:
    """The kept samples and the pairs, regenerated byte for byte; the counts."""
    from workings.samples.unit import selection_files
    kept, pairs = _rules(unit)
    recorded = unit.json(SELECTION)
    prompts = [list(group) for _, group in groupby(unit.lines(PREDICTIONS), key=lambda row: row["id"])]
    try:
        expected_files = selection_files(lambda: prompts, unit.json(EVALUATION_CONFIG), kept, pairs)
    except RequestError as error:
        raise RecordError(f"{unit.tree_path(SELECTION)}: {error.given[:120]}") from None
    expected_counts = loads(expected_files.pop(SELECTION))
    problems = [f"{name} is not what the rules make of the predictions" for name, data in expected_files.items()
                if unit.read(name) != data]
    # The rules themselves are not compared: a later version may have more of them.
    problems += [f"{SELECTION}: {place}" for name in ("counts", "pairs")
                 for place in differences(recorded[name], expected_counts[name], name)]
    yield finding_from(problems, " and ".join(sorted(expected_files)), unit)


def _rules(unit: Unit) -> "tuple[Selection, PairRule | None]":
    from workings.samples.pairs import PairRule
    from workings.samples.selection import Selection
    recorded = unit.json(SELECTION)
    pairs = recorded["pairs"]
    try:
        return Selection(**recorded["selection"]), None if is_absent(pairs) else PairRule(
            rule=pairs["rule"], most_per_prompt=pairs["most_per_prompt"])
    except RequestError as error:
        raise RecordError(f"{unit.tree_path(SELECTION)}: {error.given[:120]}") from None


def _pair_problems(unit: Unit, pairs: Any) -> list[str]:
    if is_absent(pairs):
        return [f"{PAIRS} is there, {SELECTION} has none"] if unit.has(PAIRS) else []
    made = len(unit.lines(PAIRS))
    return [] if pairs["made"] == made else [f"{PAIRS} has {made} pairs, {SELECTION} names {str(pairs['made'])[:20]}"]


def _location_problems(unit: Unit) -> list[str]:
    """Problems of the location: samples may be of trained questions, so they must not be among evaluations."""
    problems = [] if unit.parent is None else ["samples are next to a run, not among its evaluations"]
    if unit.json(EVALUATION_CONFIG).get("source") != {"kind": "generated"}:
        problems.append("completions that the model did not sample")
    return problems
