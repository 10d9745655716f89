"""Levels 2 and 3: a recorded replay follows from its numbers; and steps of the run, taken again, come out the same."""

from collections.abc import Iterator, Mapping
from typing import Any

from workings.errors import RecordError, RequestError
from workings.evidence.replay.comparison import SCHEMA, compare_replay, is_outside, replay_sentence
from workings.evidence.replay.conditions import PACKAGE, conditions, conditions_of_run, differing_conditions, on_cpu
from workings.evidence.replay.coverage import is_enough, sentences
from workings.evidence.replay.tolerance import BITWISE, tolerance_for
from workings.evidence.verify.checks.tensors import read_header
from workings.evidence.verify.learning import algorithm_of
from workings.evidence.verify.record import Record, Unit
from workings.evidence.verify.registry import (
    check,
    every_run,
    failed,
    finding_from,
    for_each_unit,
    join_first,
    not_checked,
    passed,
    record_check,
)
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.tree import FolderTree
from workings.record.digest import bytes_digest
from workings.record.layout import CHECKPOINTS, ENVIRONMENT, PREDICTIONS, REPLAY, REPLAY_ENVIRONMENT, SAMPLED
from workings.record.number_text import percent
from workings.record.values import is_absent

CONTROLS = frozenset({"seed", "learning_rate", "rows", "checkpoint"})
"""Wrong replays of every run; each way of learning may have more."""
COVERAGE = "replay.coverage"
"""Id of the check that names the recomputed parts, and what that would have missed: shown whatever its verdict."""
OWN_MACHINE = ("cpu_model", "architecture", "usable_cores", "threads", "variables")
"""Conditions that are in the environment file of a replay."""


def only_if_replayed(unit: Unit) -> CheckFinding | None:
    """Precondition of checks that look at the replay of a run, which is made for the first of them."""
    result = _replay_result(unit)
    return result if isinstance(result, CheckFinding) else None


def _replay_of(unit: Unit) -> dict[str, Any]:
    result = _replay_result(unit)
    assert not isinstance(result, CheckFinding)  # `only_if_replayed`
    return result


def _replay_result(unit: Unit) -> dict[str, Any] | CheckFinding:
    """The replay of one run, made once for all checks; or why there is none."""
    # Several checks read the same replay, and taking the steps again is the dearest thing that verification does.
    if unit.path not in unit.record.replayed:
        unit.record.replayed[unit.path] = _replay(unit)
    result = unit.record.replayed[unit.path]
    # An error is kept as well, so that a damaged record is not replayed for each check.
    if isinstance(result, RecordError):
        raise result
    return result


@check("recompute.replay", level=2, title="a recorded replay says what its numbers say, and they are its run's",
       units=lambda record: [unit for unit in record.units if unit.kind == "replay"],
       example="a replay judged by a wider tolerance than this version has")
def recorded_replays(unit: Unit) -> Iterator[CheckFinding]:
    """Verdict, mode, tolerance, recorded losses and counted completions, drawn again from what they stand on."""
    facts = unit.json(REPLAY)
    if not isinstance(facts, dict) or facts.get("schema") != SCHEMA:
        raise RecordError(f"{unit.tree_path(REPLAY)}: not a {SCHEMA}")
    if unit.parent is None:
        yield not_checked("the run that was replayed is not here", unit, blocking=False)
        return
    problems = [*_conclusion_problems(facts, unit.parent), *_line_problems(facts, unit.parent),
                *_weight_problems(facts, unit.parent),
                *_condition_problems(facts, unit), *_prediction_problems(facts, unit)]
    if not problems and facts["verdict"] == "failed":
        problems = [f"the replay itself failed: {join_first(facts['reasons'])}"]
    if not problems and facts["verdict"] != "passed":
        yield not_checked(f"the replay is open: {join_first(facts['reasons'])}", unit, blocking=False)
        return
    yield finding_from(problems, replay_sentence(facts) if not problems else "", unit)


@check("replay.steps", level=3, title="steps of the run, taken again, come out as recorded", units=every_run,
       precondition=only_if_replayed, example="all losses invented, alike in every file")
def steps(unit: Unit) -> Iterator[CheckFinding]:
    """Losses, gradient norms and, where the run kept a checkpoint there, weights, against the record."""
    facts = _replay_of(unit)
    # Controls and completions have checks of their own; left in, one of them would decide this check too.
    verdict, reasons = compare_replay(facts | {"controls": {}, "predictions": {"absent": "judged apart"}})
    text = replay_sentence(facts | {"controls": {}, "predictions": {"absent": "judged apart"}})
    if verdict == "inconclusive":
        yield not_checked(join_first(reasons), unit)
    else:
        yield passed(text, unit) if verdict == "passed" else failed(text, unit)


@check("replay.controls", level=3, title="another seed, learning rate, row or checkpoint does not come out the same",
       units=every_run, precondition=only_if_replayed,
       example="a replay that would also pass with another seed: it proves nothing, and is not counted")
def controls(unit: Unit) -> Iterator[CheckFinding]:
    """Wrong steps against the log: without these, a tolerance that lets everything pass would look like a success."""
    facts = _replay_of(unit)
    inside = [name for name, control in facts["controls"].items() if not control["outside"]]
    # Nothing was disproved, so this is no failure: one step alone, for example, says nothing about the learning
    # rate.
    if inside:
        yield not_checked(f"within the tolerance, so these steps cannot tell them apart: {', '.join(inside)}", unit)
    else:
        yield passed(", ".join(f"{name} (step {control['steps']})" for name, control in facts["controls"].items())
                     + " fell outside", unit)


@record_check("replay.predictions", level=3, title="completions, generated again, are the recorded ones",
              example="all completions of an evaluation invented")
def predictions(record: Record) -> Iterator[CheckFinding]:
    """Items that the verifier's seed draws of every evaluation, and of all samples, of the run's last state."""
    yield from for_each_unit(record.runs, _prediction_findings)
    runs = {run.root for run in record.runs}
    for unit in record.samples:
        origin = unit.seal["made_from"]
        if is_absent(origin):
            yield not_checked("no run drew these samples, so there is no record of the model", unit, blocking=False)
        elif origin not in runs:
            yield not_checked("the run that drew these samples is not here: verify a folder that holds both", unit)


@check(COVERAGE, level=3, title="the steps and answers taken again are enough to find the splice that was asked about",
       units=every_run, precondition=only_if_replayed,
       example="a run that is true up to the steps that were taken again, and another one's from there on")
def coverage(unit: Unit) -> Iterator[CheckFinding]:
    """Number of recomputed steps and answers, against the number that the requested confidence needs."""
    facts = _replay_of(unit)
    selection = facts.get("coverage")
    if selection is None:
        yield not_checked("what was taken again was not drawn", unit, blocking=False)
        return
    text = "; ".join(sentences(selection))
    confidence = selection.get("confidence")
    # Where nobody asked for a confidence, nothing is missing; it is still not said to be enough.
    if confidence is None or not is_enough(selection, confidence):
        yield not_checked(text, unit, blocking=confidence is not None)
    else:
        yield passed(text, unit)


def _prediction_findings(run: Unit) -> Iterator[CheckFinding]:
    if not _samples_of(run) and not any(evaluation.parent is run for evaluation in run.record.evaluations):
        return
    if (finding := only_if_replayed(run)) is not None:
        yield finding
        return
    facts = _replay_of(run)
    compared = facts["predictions"]
    if is_absent(compared):
        yield not_checked(compared["absent"], run)
        return
    share = facts["tolerance"]["completions"]
    text = (f"{compared['same']} of {compared['asked']} completions are the recorded text; "
            f"{percent(share, 0)} were expected")
    # A share and not all: other hardware rounds otherwise, and one changed token changes the rest of a completion.
    yield passed(text, run) if compared["same"] >= share * compared["asked"] else failed(text, run)


def _samples_of(run: Unit) -> list[Unit]:
    """Units of samples beside a run whose seals name it as their origin."""
    return [unit for unit in run.record.samples if unit.seal["made_from"] == run.root]


def _replay(unit: Unit) -> dict[str, Any] | CheckFinding | RecordError:
    # An engine opens checkpoints by their paths, and a path below the archive does not exist.
    if not isinstance(unit.record.tree, FolderTree):
        return not_checked("a zip is not unpacked; unpack it and verify the folder", unit)
    if unit.record.given.replay is None:
        return not_checked("no engine was given to replay with", unit)
    if unit.external_files:
        return not_checked("its weights are named by digest and are not here", unit)
    try:
        samples = tuple(unit.record.tree.path / samples.path for samples in _samples_of(unit))
        return dict(unit.record.given.replay(unit.record.tree.path / unit.path, samples))
    except RequestError as error:
        return not_checked(f"cannot be replayed here: {error.given}; needed: {error.expected}"
                           + (f"; {error.try_next}" if error.try_next else ""), unit)
    except RecordError as error:
        return error
    except (RuntimeError, MemoryError) as error:  # an engine's own: too large for this machine, say
        return not_checked(f"cannot be replayed here: {str(error).strip().splitlines()[:1]}", unit)


def _conclusion_problems(facts: Mapping[str, Any], run: Unit) -> list[str]:
    """Problems of the conclusion, compared with the one that follows from the numbers."""
    verdict, reasons = compare_replay(dict(facts))
    problems = []
    if (facts["verdict"], facts["reasons"]) != (verdict, reasons):
        problems.append(f"{REPLAY} says {str(facts['verdict'])[:20]}, its numbers say {verdict}")
    # The sentence is what people read and quote, so it is made again as well.
    if facts["sentence"] != replay_sentence(dict(facts)):
        problems.append(f"{REPLAY}: its sentence is not the one that its numbers give")
    expected = CONTROLS | algorithm_of(run).controls
    if set(facts["controls"]) != expected:
        problems.append(f"controls {sorted(facts['controls'])}, expected {sorted(expected)}")
    for name, control in facts["controls"].items():
        outside = is_outside(control["differences"], facts["tolerance"])
        if outside is not control["outside"]:
            problems.append(f"control {name[:20]}: outside is {control['outside']}, its differences say {outside}")
    return problems


def _line_problems(facts: Mapping[str, Any], run: Unit) -> list[str]:
    """Problems of the recorded numbers of every step, compared with the run's own log."""
    problems: list[str] = []
    for number, line in enumerate(facts["lines"], start=int(facts["from_step"])):
        # A negative number would silently read the log from its end.
        if not 0 <= number < len(run.metrics):
            return [*problems, f"step {number + 1}, and the run has {len(run.metrics)}"]
        logged = run.metrics[number]
        if line["step"] != logged["step"] or line["learning_rate"] != logged["learning_rate"]:
            problems.append(f"line {number + 1}: step and learning rate are not those of the log")
        problems += [f"step {line['step']}: recorded {name} is {line['recorded'].get(name)}, the log has {logged[name]}"
                     for name in ("loss", "grad_norm") if line["recorded"].get(name) != logged[name]]
        # The log counts what was drawn before a step; a replay has to have drawn as much.
        asked = line.get("drawn", {}).get("asked", 0)
        if asked != logged.get("completions", 0) or not 0 <= line.get("drawn", {}).get("same", 0) <= asked:
            problems.append(f"step {line['step']}: {asked} completions drawn again, the log has "
                            f"{logged.get('completions', 0):g}")
    return problems


def _weight_problems(facts: Mapping[str, Any], run: Unit) -> list[str]:
    """Problems of the run's name, and of the compared tensors: those of its checkpoint after the last step."""
    problems = [] if facts["run"] == run.manifest.name else [
        f"a replay of {str(facts['run'])[:40]!r}, it stands in {run.manifest.name[:40]!r}"]
    count, compared = len(facts["lines"]), facts["weights"]
    problems += [f"control {name[:20]} over {str(control['steps'])[:20]} steps, {count} were taken"
                 for name, control in facts["controls"].items() if not 0 < control["steps"] <= count]
    # A replay that ends between two checkpoints has no weights to compare.
    if is_absent(compared):
        return problems
    last = facts["lines"][-1]["step"] if count else 0
    if compared["step"] != last:
        return [*problems, f"weights of step {str(compared['step'])[:20]}, the last one taken is {last}"]
    prefix = f"{CHECKPOINTS}/step_{last:06d}/"
    names = [name for name in [*run.files, *run.external_files] if name.startswith(prefix)
             and name.endswith(".safetensors")]
    # Counted from the run's own files, because a replay could claim to have compared fewer.
    there = {"files": len(names)}
    if not run.external_files:
        there["tensors"] = sum(len(read_header(run, name).shapes) for name in names
                               if not name.startswith(f"{prefix}optimizer"))
    return problems + [f"weights.{key} is {str(compared.get(key))[:20]}, the run's checkpoint has {number}"
                       for key, number in there.items() if compared.get(key) != number] + (
        [f"{str(compared['files_identical'])[:20]} of {len(names)} files are identical"]
        if not 0 <= compared["files_identical"] <= len(names) else [])


def _condition_problems(facts: Mapping[str, Any], unit: Unit) -> list[str]:
    """Problems of conditions, mode and tolerance, compared with both environments and this version's tolerances."""
    run = unit.parent
    assert run is not None  # the caller has checked it
    recorded, current = facts["conditions"]["recorded"], facts["conditions"]["here"]
    packages = [name.removeprefix(PACKAGE) for name in recorded if name.startswith(PACKAGE)]
    problems = []
    if recorded != conditions_of_run(run.manifest, run.json(ENVIRONMENT), packages):
        problems.append("the recorded conditions are not those of the run")
    from_environment = conditions(unit.json(REPLAY_ENVIRONMENT), engine="", code="", device="", mesh={},
                                  packages=packages)
    problems += [f"{name} is {str(current.get(name))[:40]!r}, {REPLAY_ENVIRONMENT} says {from_environment[name][:40]!r}"
                 for name in (*OWN_MACHINE, *(PACKAGE + name for name in packages))
                 if current.get(name) != from_environment[name]]
    # Equal bits are asked for only where machine and libraries are the same, and on a CPU.
    names = differing_conditions(recorded, current)
    bitwise = not names and on_cpu(recorded)
    if names != facts["conditions"]["differing"] or facts["mode"] != ("bitwise" if bitwise else "tolerance"):
        problems.append(f"judged as {str(facts['mode'])[:20]}, the conditions ask for another way")
    allowed = BITWISE if bitwise else tolerance_for(run.manifest.actual_dtypes, recorded, current)
    if allowed is None:
        return [*problems, "no tolerance was measured for this number format"]
    limits = allowed.to_json()
    problems += [f"tolerance {name} is {facts['tolerance'][name]}, this version's is {limits[name]}"
                 # Written as a range, so that a NaN is refused as well: it is not within any range.
                 for name in ("loss", "grad_norm", "weights") if not 0 <= facts["tolerance"][name] <= limits[name]]
    if facts["tolerance"]["completions"] < limits["completions"]:
        problems.append("fewer equal completions are asked for than by this version")
    return problems


def _prediction_problems(facts: Mapping[str, Any], unit: Unit) -> list[str]:
    """Problems of the counted completions, compared with the run's own evaluations."""
    stated = facts["predictions"]
    if is_absent(stated):
        return [f"{PREDICTIONS} is there, {REPLAY} has none"] if unit.has(PREDICTIONS) else []
    run = unit.parent
    assert run is not None  # the caller has checked it
    evaluations = {other.path: other for other in unit.record.evaluations if other.parent is run}
    rows = unit.lines(PREDICTIONS)
    same = 0
    answers: dict[tuple[str, str, int], Mapping[str, Any]] = {}
    samples_by_name = {f"{SAMPLED}/{other.root}": other for other in unit.record.samples}
    for name in {str(row["unit"]) for row in rows}:
        evaluation = samples_by_name.get(name) or evaluations.get(run.tree_path(name))
        if evaluation is None and name.startswith(f"{SAMPLED}/"):
            continue  # samples stand outside of the run, and need not be here: what the replay says of them counts
        if evaluation is None:
            return [f"evaluation {name[:60]!r} is not in the run"]
        answers |= {(name, row["id"], row["sample"]): row for row in evaluation.lines(PREDICTIONS)}
    for row in rows:
        recorded = answers.get((row["unit"], row["id"], row["sample"]))
        if recorded is None and row["unit"] not in samples_by_name and row["unit"].startswith(f"{SAMPLED}/"):
            same += row["same"] is True
            continue
        if recorded is None:
            return [f"{str(row['id'])[:60]}: the evaluation has no such item"]
        equal = (bytes_digest(row["completion"].encode("utf-8")) == recorded["completion_sha256"]
                 if "completion_sha256" in recorded else row["completion"] == recorded["completion"])
        same += equal
    # A completion that comes out the same could otherwise be counted again and again until the share suffices.
    if len({(row["unit"], row["id"], row["sample"]) for row in rows}) != len(rows):
        return ["a completion is counted twice"]
    counted = {"units": sorted({row["unit"] for row in rows}), "asked": len(rows), "same": same}
    if counted == dict(stated):
        return []
    return [f"{same} of {len(rows)} completions are the recorded text, {REPLAY} says "
            f"{str(stated.get('same'))[:20]} of {str(stated.get('asked'))[:20]}"]
