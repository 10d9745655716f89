"""Level 3: steps and completions of the run, computed again, come out the same."""

from collections.abc import Iterator
from typing import Any

from workings.errors import RecordError, RequestError
from workings.evidence.replay.comparison import compare_replay, replay_sentence
from workings.evidence.replay.step_selection import misses_nothing, sentences
from workings.evidence.verify.record import Record, Unit
from workings.evidence.verify.registry import Found, check, for_each_unit, join_first, not_checked, record_check
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.tree import FolderTree
from workings.record.number_text import percent
from workings.record.values import is_absent


def _replay_of(unit: Unit) -> dict[str, Any] | CheckFinding:
    """The replay of one run, made once for all checks; or why there is no replay."""
    # Several checks read the same replay, and taking the steps again is the dearest thing that verification does.
    if unit.path not in unit.record.replayed:
        unit.record.replayed[unit.path] = _replay(unit)
    result = unit.record.replayed[unit.path]
    # An error is kept as well, so that a damaged record is not replayed for each check.
    if isinstance(result, RecordError):
        raise result
    return result


@check("replay.steps")
def steps(unit: Unit) -> Found:
    """Losses, gradient norms and, at checkpoints, weights, against the record."""
    facts = _replay_of(unit)
    if isinstance(facts, CheckFinding):
        return facts
    # Controls and completions have separate checks.
    facts = facts | {"controls": {}, "predictions": {"absent": "judged apart"}}
    verdict, reasons = compare_replay(facts)
    text = replay_sentence(facts)
    if verdict == "failed":
        yield text
    return not_checked(join_first(reasons)) if verdict == "inconclusive" else text


@check("replay.controls")
def controls(unit: Unit) -> Found:
    """Wrong steps against the log: without these, a tolerance that lets everything pass would look like a success."""
    facts = _replay_of(unit)
    if isinstance(facts, CheckFinding):
        return facts
    # Nothing was disproved, so this is no failure: one step alone, for example, says nothing about the learning
    # rate.
    if inside := [name for name, control in facts["controls"].items() if not control["outside"]]:
        yield not_checked(f"within the tolerance, so these steps cannot tell them apart: {', '.join(inside)}")
        return None
    return ", ".join(f"{name} (step {control['steps']})" for name, control in facts["controls"].items()) \
        + " fell outside"


@record_check("replay.predictions")
def predictions(record: Record) -> Iterator[CheckFinding]:
    """Items that the verifier's seed selects from every evaluation and all samples of the run's last state."""
    yield from for_each_unit(record.runs, _predictions)
    runs = {run.root for run in record.runs}
    for unit in record.samples:
        origin = unit.seal["made_from"]
        if is_absent(origin):
            yield not_checked("these samples come from no run, so there is no record of the model", unit,
                              blocking=False)
        elif origin not in runs:
            yield not_checked("the run of these samples is not here: verify a folder with both", unit)


def _predictions(run: Unit) -> Found:
    if not _samples_of(run) and not any(evaluation.parent is run for evaluation in run.record.evaluations):
        return None
    facts = _replay_of(run)
    if isinstance(facts, CheckFinding):
        return facts
    compared, share = facts["predictions"], facts["tolerance"]["completions"]
    if is_absent(compared):
        return not_checked(compared["absent"])
    text = (f"{compared['same']} of {compared['asked']} completions are the recorded text; "
            f"{percent(share, 0)} were expected")
    # A share, not all: other hardware rounds differently, and one changed token changes the rest of a completion.
    if compared["same"] < share * compared["asked"]:
        yield text
    return text


@check("replay.coverage")
def coverage(unit: Unit) -> Found:
    """Number of recomputed steps and answers, against all of them if the whole run was requested."""
    facts = _replay_of(unit)
    if isinstance(facts, CheckFinding):
        return facts
    selection = facts.get("coverage")
    if selection is None:
        yield not_checked("the recomputed parts were not chosen by a seed", blocking=False)
        return None
    text = "; ".join(sentences(selection))
    # Where a part was asked for, nothing is missing; it is still not said to be enough.
    return text if selection["whole"] and misses_nothing(selection) else not_checked(text, blocking=selection["whole"])


def _samples_of(run: Unit) -> list[Unit]:
    """Units of samples next to a run whose seals name it as their origin."""
    return [unit for unit in run.record.samples if unit.seal["made_from"] == run.root]


def _replay(unit: Unit) -> dict[str, Any] | CheckFinding | RecordError:
    # An engine opens checkpoints by their paths, and a path below the archive does not exist.
    if not isinstance(unit.record.tree, FolderTree):
        return not_checked("a zip is not unpacked; unpack it and verify the folder")
    if unit.record.given.replay is None:
        return not_checked("no engine was given to replay with")
    if unit.external_files:
        return not_checked("its weights are named by digest and are not here")
    try:
        samples = tuple(unit.record.tree.path / samples.path for samples in _samples_of(unit))
        return dict(unit.record.given.replay(unit.record.tree.path / unit.path, samples))
    except RequestError as error:
        return not_checked(f"cannot be replayed here: {error.given}; needed: {error.expected}"
                           + (f"; {error.try_next}" if error.try_next else ""))
    except RecordError as error:
        return error
    except (RuntimeError, MemoryError) as error:  # an engine's own: too large for this machine, say
        return not_checked(f"cannot be replayed here: {str(error).strip().splitlines()[:1]}")
