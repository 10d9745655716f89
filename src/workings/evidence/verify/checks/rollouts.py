"""Level 1: prompts, seeds, groups, batches and the log of a run with rollouts follow from each other.

No weights are needed: the completions are recorded, and everything derived from them is recomputed.
"""

import math
from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Any

from workings.evidence.verify.checks.update_metrics import bound_problems, objective_problems
from workings.evidence.verify.learning import records
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import check, finding_from
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.rollout_inputs import RolloutInputs, rollout_inputs_of, rollouts_of
from workings.record.layout import ROLLOUTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workings.record.metrics import StepMetrics
    from workings.rollouts.rollout import Group, Rollout

CLOSE = 1e-9
"""Relative tolerance of a recomputed mean in the log."""
POSITION_BYTES = 60
"""Largest memory of a position of a batch."""


@check("consistency.rollouts", when=records(ROLLOUTS))
def rollouts(unit: Unit) -> Iterator[CheckFinding]:
    """One rollout before every first update; prompts in order; a seed for each sample; groups chosen by the rule.

    The batch of each step, recomputed from tokens, advantages and log probabilities. Rewards, groups, lengths and ends,
    divergences, how far sampler and trainer disagree, and the loss against the log.
    """
    inputs, position, names = rollout_inputs_of(unit), None, set[str]()
    problems = _step_problems(unit, inputs)
    in_order, completions = not problems, 0
    steps, lines = {line.step: line for line in unit.steps}, {row["step"]: row for row in unit.metrics}
    for rollout in rollouts_of(unit):
        # The first rollout begins at the default position: epoch 0, prompt 0.
        if in_order and rollout.position != (position or type(rollout.position)()):
            problems.append(f"rollout of step {rollout.step}: its prompts begin elsewhere than the last one ended")
        position = rollout.after
        completions += len(rollout.all_samples)
        compared, wrong_numbers = _metric_problems(inputs, rollout, lines)
        problems += [*_sampling_problems(inputs, rollout), *_batch_problems(unit, inputs, rollout, steps, lines),
                     *wrong_numbers]
        names |= compared
    problems += _later_update_problems(inputs, lines, names)
    problems += [f"step {step}: no rollout" for step in steps]
    problems += [problem for line in unit.metrics for problem in bound_problems(line)]
    problems += _held_out_problems(unit)
    yield finding_from(problems, f"{len(inputs.steps)} rollouts, {completions:,} completions of seed "
                                 f"{unit.manifest.seed}", unit)


def _batch_problems(unit: Unit, inputs: RolloutInputs, rollout: "Rollout", steps: "dict[int, StepMetrics]",
                    lines: dict[Any, dict[str, Any]]) -> list[str]:
    """Problems of the batches that were trained on a rollout, and of the numbers of their updates.

    The updates' lines are removed from ``steps``; ``lines`` has them as the log has.
    """
    from workings.rollouts.rollout import batch_of, digest_of
    problems: list[str] = []
    longest = max((len(prompt.tokens) + len(sample.tokens_with_stop) for prompt, sample in rollout.trained_samples),
                  default=1)
    for part in range(min(inputs.shape.updates, len(steps))):
        line = steps.pop(rollout.step + part, None)
        if line is None:  # the step was not completed
            continue
        # Padding takes memory as well: a short row may be padded to a bucket of millions of positions.
        unit.tree.cache.check_transient(POSITION_BYTES * prod(inputs.shape.batch_shape(longest)))
        batch = batch_of(rollout, part, inputs.shape, inputs.algorithm)
        expected = (digest_of(batch), batch.real_tokens, batch.supervised_tokens)
        if expected != (line.batch_digest, line.tokens, line.supervised_tokens):
            problems.append(f"step {line.step}: another batch than its rollout implies")
        else:
            problems += objective_problems(inputs, rollout, batch, lines[line.step])
    return problems


def _metric_problems(inputs: RolloutInputs, rollout: "Rollout",
                     lines: dict[Any, dict[str, Any]]) -> tuple[set[str], list[str]]:
    """Names of the numbers that were compared, and differences between the log's line and a rollout."""
    from workings.rollouts.arithmetic import mismatch, rollout_metrics
    line = lines.get(rollout.step)
    if line is None:  # the step was not completed
        return set(), []
    values = rollout_metrics(rollout, inputs.reward_names) | mismatch(rollout)
    return {*values}, [f"step {rollout.step}: {name} is {str(line.get(name))[:20]}, the rollout gives {value:g}"
                       for name, value in values.items() if not isinstance(logged := line.get(name), int | float)
                       or not math.isclose(logged, value, rel_tol=CLOSE, abs_tol=1e-12)]


def _later_update_problems(inputs: RolloutInputs, lines: dict[Any, dict[str, Any]], names: set[str]) -> list[str]:
    """Numbers of a rollout in the line of an update without a rollout."""
    return [f"step {step}: {', '.join(sorted(names & line.keys()))[:80]}, and no rollout was sampled for it"
            for step, line in lines.items() if step not in inputs.steps and names & line.keys()]


def _held_out_problems(unit: Unit) -> list[str]:
    """Scores of held-out items against the mean of their marks."""
    return [f"step {row['step']}: held_out_score is {str(row.get('held_out_score'))[:20]}, its marks give another value"
            for row in unit.metrics if "held_out_right" in row and (
                not (marks := str(row["held_out_right"])) or set(marks) - {"0", "1"}
                or row.get("held_out_items") != len(marks)
                # Equal and not near: a quotient of two whole numbers is rounded in one way only.
                or row.get("held_out_score") != marks.count("1") / len(marks))]


def _step_problems(unit: Unit, inputs: RolloutInputs) -> list[str]:
    """Steps of the rollouts against the completed steps."""
    updates, done = inputs.shape.updates, unit.manifest.completed_steps
    # A rollout has the number of the first update that was trained on it.
    expected = list(range(1, done + 1, updates))
    steps = list(inputs.steps)
    # A run that failed may have a rollout for a step that it could not complete.
    if steps == expected or (unit.manifest.status == "failed" and steps == [*expected, done + 1]
                             and done % updates == 0):
        return []
    return [f"rollouts of steps {str(steps[:4])[1:-1]}… ({len(steps)}), {done} steps ask for {len(expected)}"]


def _sampling_problems(inputs: RolloutInputs, rollout: "Rollout") -> list[str]:
    from workings.rollouts.rollout import sample_seed
    subject, problems = f"rollout of step {rollout.step}", []
    groups_per_rollout = inputs.shape.completions // inputs.algorithm.group
    rounds, over = divmod(len(rollout.groups), groups_per_rollout)
    most = inputs.algorithm.max_sampling_rounds
    # Whole rounds only: resampling takes the groups of an update.
    if over or not 1 <= rounds <= most:
        return [f"{subject}: {len(rollout.groups)} groups, updates take {groups_per_rollout}"]
    prompt_positions, after = inputs.prompts.take(rollout.position, len(rollout.groups))
    if [(position.prompt, position.epoch) for position in prompt_positions] != [(group.prompt, group.epoch)
                                                                                for group in rollout.groups]:
        problems.append(f"{subject}: other prompts than seed and prompts imply")
    # Otherwise prompts between two rollouts could have been skipped.
    if after != rollout.after:
        problems.append(f"{subject}: the next one would begin elsewhere")
    if any(len(group.samples) != inputs.algorithm.group for group in rollout.groups):
        problems.append(f"{subject}: groups of another size")
    seeds = [sample_seed(inputs.prompts.seed, rollout.step, group.epoch, group.prompt.item.id, number)
             for group in rollout.groups for number in range(len(group.samples))]
    if seeds != [sample.seed for _, sample in rollout.all_samples]:
        problems.append(f"{subject}: other seeds than step, prompt and number imply")
    if bool(rollout.reference_log_probs) != bool(inputs.algorithm.has_reference and rollout.trained_samples):
        problems.append(f"{subject}: log probabilities of a frozen model are there, or missing, against the recipe")
    return [*problems, *_choice_problems(subject, rollout.groups, groups_per_rollout, dynamic=most > 1),
            *_log_prob_problems(subject, rollout)]


def _choice_problems(subject: str, groups: "Sequence[Group]", groups_per_rollout: int, *, dynamic: bool) -> list[str]:
    from workings.rollouts.rollout import select_groups
    spreads = [group.has_spread for group in groups]
    problems = []
    if select_groups(spreads, groups_per_rollout, dynamic=dynamic) != [group.kept for group in groups]:
        problems.append(f"{subject}: other groups were learned from than the rule chooses")
    # It samples again only while groups are missing.
    if len(groups) > groups_per_rollout and sum(select_groups(spreads[:-groups_per_rollout], groups_per_rollout,
                                                              dynamic=dynamic)) == groups_per_rollout:
        problems.append(f"{subject}: more was sampled than the rule allows")
    return problems


def _log_prob_problems(subject: str, rollout: "Rollout") -> list[str]:
    import numpy as np
    drawn = [np.asarray(sample.completion.log_probs) for _, sample in rollout.all_samples]
    # A logarithm of a probability is at most 0; rounding may lift it a little.
    if any(not np.isfinite(x).all() or (x > 1e-3).any() for x in (
            *drawn, *rollout.trainer_log_probs, *rollout.reference_log_probs)):
        return [f"{subject}: log probabilities above 0 or not finite"]
    return []
