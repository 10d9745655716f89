"""Level 1: of a run that drew what it learned from, every prompt, seed, group, batch and number of the log follows.

No weights are needed: what was drawn stands in the record, and all that was made of it is made again.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import check, every_run, finding_from
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.rollout_inputs import Learned, learned_of, rollouts_of, uses_rollouts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workings.record.metrics import StepMetrics
    from workings.rollouts.rollout import Group, Rollout

CLOSE = 1e-6
"""Relative difference that a mean in the log may have from the one that is computed again."""
POSITION_BYTES = 60
"""What a position of a batch takes in memory, at most."""


@check("consistency.rollouts", level=1, title="what was drawn is what seed and prompts imply: prompts, seeds, groups",
       units=every_run, when=uses_rollouts, example="two prompts exchanged, or the seed of one completion changed")
def rollouts(unit: Unit) -> Iterator[CheckFinding]:
    """One rollout before every first update; prompts in order; a seed for each sample; groups chosen by the rule."""
    seen = _seen(unit)
    yield finding_from(seen.drawing, f"{seen.rollouts} rollouts, {seen.completions:,} completions of seed "
                                     f"{unit.manifest.seed}", unit)


@check("consistency.rollout_batches", level=1, title="every update learned from the rollout that is recorded",
       units=every_run, when=uses_rollouts, example="the log probability of a token, changed")
def batches(unit: Unit) -> Iterator[CheckFinding]:
    """The batch of each step made again from tokens, advantages and log probabilities: digest and counts."""
    yield finding_from(_seen(unit).batches, f"{len(unit.steps)} batches", unit)


@check("consistency.rollout_metrics", level=1, title="the log says of the rollouts what they are", units=every_run,
       when=uses_rollouts, example="a better mean reward in the log than the rollouts have")
def metrics(unit: Unit) -> Iterator[CheckFinding]:
    """Rewards, groups, lengths, ends, the divergence from a teacher, and how far sampler and trainer disagree."""
    seen = _seen(unit)
    yield finding_from(seen.metrics + _held_out_problems(unit), f"{seen.numbers:,} numbers of {seen.rollouts} rollouts",
                       unit)


@dataclass(kw_only=True)
class _Seen:
    """What one reading of all rollouts found wrong, by check, and what it counted."""

    drawing: list[str] = field(default_factory=list)
    batches: list[str] = field(default_factory=list)
    metrics: list[str] = field(default_factory=list)
    rollouts: int = 0
    completions: int = 0
    numbers: int = 0


def _seen(unit: Unit) -> _Seen:
    return unit.cached("what was drawn", lambda: _look(unit))


def _look(unit: Unit) -> _Seen:
    learned, position = learned_of(unit), None
    seen = _Seen(drawing=_step_problems(unit, learned), rollouts=len(learned.steps))
    in_order = not seen.drawing
    steps, lines = {line.step: line for line in unit.steps}, {row["step"]: row for row in unit.metrics}
    for rollout in rollouts_of(unit):
        # The first rollout begins at the default position: epoch 0, prompt 0.
        if in_order and rollout.position != (position or type(rollout.position)()):
            seen.drawing.append(f"rollout of step {rollout.step}: its prompts begin elsewhere than the last one ended")
        position = rollout.after
        seen.drawing += _drawn_problems(learned, rollout)
        seen.completions += len(rollout.all_samples)
        seen.batches += _batch_problems(unit, learned, rollout, steps)
        problems, count = _metric_problems(learned, rollout, lines)
        seen.metrics += problems
        seen.numbers += count
    seen.batches += [f"step {step}: no rollout" for step in steps]
    return seen


def _batch_problems(unit: Unit, learned: Learned, rollout: "Rollout", steps: "dict[int, StepMetrics]") -> list[str]:
    """What is wrong with the updates that learned from a rollout; their lines are taken out of ``steps``."""
    from workings.rollouts.rollout import batch_of, digest_of
    problems = []
    longest = max((len(prompt.tokens) + len(sample.tokens_with_stop) for prompt, sample in rollout.trained_samples),
                  default=1)
    for part in range(min(learned.shape.updates, len(steps))):
        line = steps.pop(rollout.step + part, None)
        if line is None:  # the step was not completed
            continue
        # What a bucket is filled up with takes memory as well: a short row may ask for one of millions of positions.
        unit.tree.cache.check_transient(POSITION_BYTES * prod(learned.shape.batch_shape(longest)))
        batch = batch_of(rollout, part, learned.shape, learned.algorithm)
        made = (digest_of(batch), batch.real_tokens, batch.supervised_tokens)
        if made != (line.batch_digest, line.tokens, line.supervised_tokens):
            problems.append(f"step {line.step}: another batch than its rollout implies")
    return problems


def _metric_problems(learned: Learned, rollout: "Rollout", lines: dict[Any, dict[str, Any]]) -> tuple[list[str], int]:
    """What its step's line says otherwise, and how many numbers were compared."""
    from workings.rollouts.arithmetic import mismatch, rollout_metrics
    line = lines.get(rollout.step)
    if line is None:  # the step was not completed
        return [], 0
    values = rollout_metrics(rollout, learned.reward_names) | mismatch(rollout)
    return [f"step {rollout.step}: {name} is {str(line.get(name))[:20]}, the rollout gives {value:g}"
            for name, value in values.items() if not isinstance(said := line.get(name), int | float)
            or not math.isclose(said, value, rel_tol=CLOSE, abs_tol=1e-9)], len(values)


def _held_out_problems(unit: Unit) -> list[str]:
    """Scores of held-out items against the marks that they are the mean of."""
    return [f"step {row['step']}: held_out_score is {str(row.get('held_out_score'))[:20]}, its marks say otherwise"
            for row in unit.metrics if "held_out_right" in row and (
                not (marks := str(row["held_out_right"])) or set(marks) - {"0", "1"}
                or row.get("held_out_items") != len(marks)
                # Equal and not near: a quotient of two whole numbers is rounded in one way only.
                or row.get("held_out_score") != marks.count("1") / len(marks))]


def _step_problems(unit: Unit, learned: Learned) -> list[str]:
    """The rollouts' steps against the steps that were completed."""
    updates, done = learned.shape.updates, unit.manifest.completed_steps
    # Of several updates from one rollout the first one gives it its number.
    expected = list(range(1, done + 1, updates))
    steps = list(learned.steps)
    # A run that failed may have drawn for a step that it could not complete.
    if steps == expected or (unit.manifest.status == "failed" and steps == [*expected, done + 1]
                             and done % updates == 0):
        return []
    return [f"rollouts of steps {str(steps[:4])[1:-1]}… ({len(steps)}), {done} steps ask for {len(expected)}"]


def _drawn_problems(learned: Learned, rollout: "Rollout") -> list[str]:
    from workings.rollouts.rollout import sample_seed
    place, problems = f"rollout of step {rollout.step}", []
    wanted = learned.shape.completions // learned.algorithm.group
    rounds, over = divmod(len(rollout.groups), wanted)
    most = learned.algorithm.max_sampling_rounds
    if over or not 1 <= rounds <= most:
        return [f"{place}: {len(rollout.groups)} groups, updates take {wanted}"]
    places, after = learned.prompts.take(rollout.position, len(rollout.groups))
    if [(each.prompt, each.epoch) for each in places] != [(group.prompt, group.epoch) for group in rollout.groups]:
        problems.append(f"{place}: other prompts than seed and prompts imply")
    if after != rollout.after:
        problems.append(f"{place}: the next one would begin elsewhere")
    if any(len(group.samples) != learned.algorithm.group for group in rollout.groups):
        problems.append(f"{place}: groups of another size")
    seeds = [sample_seed(learned.prompts.seed, rollout.step, group.epoch, group.prompt.item.id, number)
             for group in rollout.groups for number in range(len(group.samples))]
    if seeds != [sample.seed for _, sample in rollout.all_samples]:
        problems.append(f"{place}: other seeds than step, prompt and number imply")
    if bool(rollout.reference_log_probs) != bool(learned.algorithm.has_reference and rollout.trained_samples):
        problems.append(f"{place}: log probabilities of a frozen model are there, or missing, against the recipe")
    return [*problems, *_choice_problems(place, rollout.groups, wanted, dynamic=most > 1),
            *_log_prob_problems(place, rollout)]


def _choice_problems(place: str, groups: "Sequence[Group]", wanted: int, *, dynamic: bool) -> list[str]:
    from workings.rollouts.rollout import select_groups
    spreads = [group.has_spread for group in groups]
    problems = []
    if select_groups(spreads, wanted, dynamic=dynamic) != [group.kept for group in groups]:
        problems.append(f"{place}: other groups were learned from than the rule chooses")
    # It draws again only as long as groups are missing.
    if len(groups) > wanted and sum(select_groups(spreads[:-wanted], wanted, dynamic=dynamic)) == wanted:
        problems.append(f"{place}: more was drawn than the rule asks for")
    return problems


def _log_prob_problems(place: str, rollout: "Rollout") -> list[str]:
    import numpy as np
    drawn = [np.asarray(sample.completion.log_probs) for _, sample in rollout.all_samples]
    # A logarithm of a probability is at most 0; rounding may lift it a little.
    if any(not np.isfinite(x).all() or (x > 1e-3).any() for x in (
            *drawn, *rollout.trainer_log_probs, *rollout.reference_log_probs)):
        return [f"{place}: log probabilities above 0 or not finite"]
    return []
