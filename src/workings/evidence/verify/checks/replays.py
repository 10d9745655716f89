"""Level 3: steps and completions of the run, computed again, come out the same."""

from workings.errors import RecordError, RequestError, first_line
from workings.evidence.replay.comparison import Facts, replay_sentence, wrong_steps
from workings.evidence.replay.step_selection import sentences
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import Found, check, not_checked
from workings.evidence.verify.result import NotChecked
from workings.evidence.verify.tree import FolderTree
from workings.record.number_text import percent
from workings.record.values import is_absent


def _replay_of(unit: Unit) -> Facts:
    """The replay of one run, made once for all checks. Raises `NotChecked` where there is none, and `RecordError`."""
    replayed = unit.record.replayed
    if unit.path not in replayed:
        try:
            replayed[unit.path] = _replay(unit)
        except (NotChecked, RecordError) as error:
            replayed[unit.path] = error  # raised for the other checks as well
    result = replayed[unit.path]
    if isinstance(result, Exception):
        raise result
    return result


@check("replay.steps")
def steps(unit: Unit) -> Found:
    """Losses, gradient norms and, at checkpoints, weights, against the record."""
    facts = _replay_of(unit)
    if wrong_steps(facts):
        yield replay_sentence(facts)
    return replay_sentence(facts)


@check("replay.controls")
def controls(unit: Unit) -> Found:
    """Replays with something wrong on purpose, which must fail: else a tolerance that passes all would look good."""
    facts = _replay_of(unit)
    # No failure: one step alone, for example, says nothing about the learning rate.
    if inside := [name for name, control in facts["controls"].items() if not control["outside"]]:
        yield not_checked(f"within the tolerance, so these steps cannot tell them apart: {', '.join(inside)}")
        return None
    outside = (f"{name} (step {control['steps']})" for name, control in facts["controls"].items())
    return f"{', '.join(outside)} fell outside"


@check("replay.predictions", "samples")
def origins(samples: Unit) -> Found:
    """The run that the samples come from: only its replay draws them again."""
    origin = samples.seal["made_from"]
    if is_absent(origin):
        yield not_checked("these samples come from no run, so there is no record of the model", blocking=False)
    elif origin not in samples.record.by_root:
        yield not_checked("the run of these samples is not here: verify a folder with both")
    return None


@check("replay.predictions", when=lambda run: bool(run.inside or _samples_of(run)))
def predictions(run: Unit) -> Found:
    """Items that the verifier's seed selects from every evaluation and all samples of the run's last state."""
    facts = _replay_of(run)
    compared, share = facts["predictions"], facts["tolerance"]["completions"]
    if is_absent(compared):
        return not_checked(compared["absent"])
    text = (f"{compared['same']} of {compared['asked']} completions are the recorded text; "
            f"{percent(share, 0)} were expected")
    # Other hardware rounds differently, and one changed token changes the rest of a completion.
    if compared["same"] < share * compared["asked"]:
        yield text
    return text


@check("replay.coverage")
def coverage(unit: Unit) -> Found:
    """Number of recomputed steps and answers, against all of them if the whole run was requested."""
    selection = _replay_of(unit).get("coverage")
    if selection is None:
        yield not_checked("the recomputed parts were not chosen by a seed", blocking=False)
        return None
    text = "; ".join(sentences(selection))
    is_complete = not selection["steps"]["not_replayed"] and all(
        row["asked"] == row["items"] for row in selection["answers"])
    if selection["whole"] and is_complete:
        return text
    return not_checked(text, blocking=selection["whole"])


def _samples_of(run: Unit) -> list[Unit]:
    """Units of samples next to a run whose seals name it as their origin."""
    return [unit for unit in run.record.units_of("samples") if unit.seal["made_from"] == run.root]


def _replay(unit: Unit) -> Facts:
    if not isinstance(unit.tree, FolderTree):
        raise NotChecked("a zip is not unpacked; unpack it and verify the folder")
    if unit.record.replay is None:
        raise NotChecked("no engine was given to replay with")
    if unit.external_files:
        raise NotChecked("its weights are named by digest and are not here")
    try:
        samples = tuple(unit.tree.path / samples.path for samples in _samples_of(unit))
        return dict(unit.record.replay(unit.tree.path / unit.path, samples))
    except RequestError as error:
        advice = f"; {error.try_next}" if error.try_next else ""
        raise NotChecked(f"cannot be replayed here: {error.given}; needed: {error.expected}{advice}") from None
    except (RuntimeError, MemoryError) as error:  # from an engine: too large for this machine, say
        raise NotChecked(f"cannot be replayed here: {first_line(error)}") from None
