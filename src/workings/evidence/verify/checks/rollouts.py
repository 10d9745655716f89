"""Level 1: prompts, seeds, groups, batches and the log of a run with rollouts follow from each other.

No weights are needed: everything follows from the recorded completions. The loss, entropy and divergences of an update
follow from the recorded log probabilities if each rollout has one update; otherwise only their bounds are known.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from workings.data.batches import Position
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import Found, check, contradictions, is_number, records
from workings.evidence.verify.rollout_inputs import RolloutInputs, rollout_inputs_of, rollouts_of
from workings.models.batch import Batch
from workings.objectives.base import ArrayFunctions
from workings.objectives.policy_gradient import ADVANTAGE, BEHAVIOR, LARGEST_LOG_RATIO, REFERENCE, PolicyGradient
from workings.record.layout import ROLLOUTS
from workings.record.metrics import RIGHT, WRONG
from workings.rollouts.rollout import Group, Rollout, mismatch, rollout_metrics, sample_seed, select_groups
from workings.ways.parts.rollout_batch import batch_of, completion_span, digest_of

CLOSE_MEAN = 1e-9
"""Relative tolerance of a recomputed mean in the log."""
CLOSE_SUM = 1e-4
"""Share of the sum of absolute values by which a float32 sum over many tokens may differ from the one here."""
ROUNDING = 1e-6
"""Rounding of a single token's number, in nats."""
NEAR_BOUND = 1e-4
"""Relative distance from a bound of the ratio within which rounding decides on which side of it a token is."""
POSITION_BYTES = 60
"""Largest memory of a position of a batch."""
NEVER_NEGATIVE = ("drawing_seconds", "kl_behavior", "kl_reference", "clip_fraction")
ADAPTERS = "adapter_model.safetensors"
SAMPLER_KEYS = {"name", "version", "adapter", "behind"}
"""Keys of what a rollout says of the program that sampled it, with which version of the adapters."""
_NUMPY = ArrayFunctions(exp=np.exp, expm1=np.expm1, log=np.log, minimum=np.minimum, clip=np.clip,
                        log_sigmoid=lambda x: -np.logaddexp(0, -x), stop_gradient=np.asarray,
                        stack=lambda arrays: np.stack(arrays, -1))


@check("consistency.rollouts", when=records(ROLLOUTS))
def rollouts(unit: Unit) -> Found:
    """One rollout before every first update; prompts in order; a seed for each sample; groups chosen by the rule.

    The batch of each step, recomputed from tokens, advantages and log probabilities. Rewards, groups, lengths and ends,
    divergences, how far sampler and trainer disagree, and the loss against the log.
    """
    inputs, lines = rollout_inputs_of(unit), {line["step"]: line for line in unit.metrics}
    gaps = [*_step_problems(unit, inputs)]
    yield from gaps
    begin = Position()
    names, completions = set[str](), 0
    for rollout in rollouts_of(unit):
        if not gaps and rollout.position != begin:
            yield f"rollout of step {rollout.step}: its prompts begin elsewhere than the last one ended"
        begin = rollout.after
        completions += len(rollout.all_samples)
        yield from (f"rollout of step {rollout.step}: {problem}" for problem in _sampling_problems(inputs, rollout))
        yield from _batch_problems(unit, inputs, rollout, lines)
        if rollout.step in lines:  # the step was completed
            values = rollout_metrics(rollout, inputs.reward_names) | mismatch(rollout)
            names |= values.keys()
            for name, value in values.items():
                logged = lines[rollout.step].get(name)
                if not is_number(logged) or not math.isclose(logged, value, rel_tol=CLOSE_MEAN, abs_tol=1e-12):
                    yield f"step {rollout.step}: {name} is {str(logged)[:20]}, the rollout gives {value:g}"
    # Numbers of a rollout in the line of an update without a rollout.
    yield from (f"step {step}: {', '.join(sorted(names & line.keys()))[:80]}, and no rollout was sampled for it"
                for step, line in lines.items() if step not in inputs.steps and names & line.keys())
    for line in unit.metrics:
        yield from bound_problems(line)
        if "held_out_right" in line:
            yield from _held_out_problems(line)
    return f"{len(inputs.steps)} rollouts, {completions:,} completions of seed {unit.manifest.seed}"


def _batch_problems(unit: Unit, inputs: RolloutInputs, rollout: Rollout, lines: Mapping[Any, Mapping[str, Any]]
                    ) -> Iterator[str]:
    """Problems of the batches of a rollout, one for each of its updates; ``lines``: of the log, by step."""
    longest = max((len(prompt.tokens) + len(sample.tokens_with_stop) for prompt, sample in rollout.trained_samples),
                  default=1)
    for part in range(min(inputs.shape.updates, len(lines))):
        line = lines.get(rollout.step + part)
        if line is None:
            continue  # the step was not completed
        # Padding takes memory as well: a short row may be padded to a bucket of millions of positions.
        unit.tree.cache.check_transient(POSITION_BYTES * prod(inputs.shape.batch_shape(longest)))
        batch = batch_of(rollout, part, inputs.shape, inputs.algorithm)
        expected = {"batch_digest": digest_of(batch), "tokens": batch.real_tokens,
                    "supervised_tokens": batch.supervised_tokens}
        if any(contradictions("", line, expected, "")):
            yield f"step {line['step']}: another batch than its rollout implies"
        else:
            yield from _objective_problems(inputs, rollout, batch, line)


def _held_out_problems(line: Mapping[str, Any]) -> Iterator[str]:
    place, marks = f"step {line['step']}", str(line["held_out_right"])
    if not marks or set(marks) - {RIGHT, WRONG}:
        yield f"{place}: held_out_right is {marks[:40]!r}"
        return
    yield from contradictions(place, line, {
        "held_out_items": len(marks), "held_out_score": marks.count(RIGHT) / len(marks)}, "its marks give")


def _step_problems(unit: Unit, inputs: RolloutInputs) -> Iterator[str]:
    updates, done = inputs.shape.updates, unit.manifest.completed_steps
    steps, expected = list(inputs.steps), list(range(1, done + 1, updates))
    # A run that failed may have a rollout for a step that it could not complete.
    may_have_next = unit.manifest.status == "failed" and done % updates == 0
    if steps != expected and not (may_have_next and steps == [*expected, done + 1]):
        yield f"rollouts of steps {str(steps[:4])[1:-1]}… ({len(steps)}), {done} steps ask for {len(expected)}"


def _sampling_problems(inputs: RolloutInputs, rollout: Rollout) -> Iterator[str]:
    groups_per_rollout = inputs.shape.completions // inputs.algorithm.group
    rounds, over = divmod(len(rollout.groups), groups_per_rollout)
    most = inputs.algorithm.max_sampling_rounds
    if over or not 1 <= rounds <= most:
        yield f"{len(rollout.groups)} groups, updates take {groups_per_rollout}"
        return
    expected, after = inputs.prompts.take(rollout.position, len(rollout.groups))
    if [(each.prompt, each.epoch) for each in expected] != [(group.prompt, group.epoch) for group in rollout.groups]:
        yield "other prompts than seed and prompts imply"
    if after != rollout.after:
        yield "the next one would begin elsewhere"
    if any(len(group.samples) != inputs.algorithm.group for group in rollout.groups):
        yield "groups of another size"
    seeds = [sample_seed(inputs.prompts.seed, rollout.step, group.epoch, group.prompt.item.id, number)
             for group in rollout.groups for number in range(len(group.samples))]
    if seeds != [sample.seed for _, sample in rollout.all_samples]:
        yield "other seeds than step, prompt and number imply"
    if bool(rollout.reference_log_probs) != bool(inputs.algorithm.has_reference and rollout.trained_samples):
        yield "log probabilities of a frozen model are there, or missing, against the recipe"
    yield from _choice_problems(rollout.groups, groups_per_rollout, dynamic=most > 1)
    # A logarithm of a probability is at most 0; rounding may lift it a little.
    log_probs = [*(np.asarray(sample.completion.log_probs) for _, sample in rollout.all_samples),
                 *rollout.trainer_log_probs, *rollout.reference_log_probs]
    if any(not np.isfinite(x).all() or (x > 1e-3).any() for x in log_probs):
        yield "log probabilities above 0 or not finite"


def _choice_problems(groups: Sequence[Group], groups_per_rollout: int, *, dynamic: bool) -> Iterator[str]:
    spreads = [group.has_spread for group in groups]
    if select_groups(spreads, groups_per_rollout, dynamic=dynamic) != [group.kept for group in groups]:
        yield "other groups were learned from than the rule chooses"
    # A further round is sampled only while groups are missing.
    before_last_round = spreads[:-groups_per_rollout]
    if sum(select_groups(before_last_round, groups_per_rollout, dynamic=dynamic)) == groups_per_rollout:
        yield "more was sampled than the rule allows"


@check("consistency.rollouts", when=lambda unit: unit.recipe is not None and unit.recipe.sampler is not None)
def sampler(unit: Unit) -> Found:
    """The digest of the adapters in each rollout, against the checkpoint before it and the rollouts around it."""
    inputs = rollout_inputs_of(unit)
    config = inputs.recipe.sampler
    assert config is not None  # `when`
    changed = {line.step for line in unit.steps if line.share_of_weights_changed > 0}
    saved = {step: unit.sums.get(f"{folder}/{ADAPTERS}") for step, folder in unit.checkpoints.items()}
    last_before, adapter_before, compared = 0, "", 0
    for rollout in rollouts_of(unit):
        tag, about = rollout.sampler, f"rollout of step {rollout.step}"
        if {*tag} != SAMPLER_KEYS or tag["name"] != config.name or tag["behind"] not in ("0", "1"):
            yield f"{about}: no name, version and adapters of its sampler"
            continue
        behind = int(tag["behind"])
        if behind and not (config.ahead and rollout.step > 1):
            yield f"{about}: sampled with older adapters, which the recipe does not allow"
        # Updates that the adapters had when it was sampled.
        last = rollout.step - 1 - behind
        if saved.get(last) is not None:
            compared += 1
            if tag["adapter"] != saved[last]:
                yield f"{about}: sampled with adapters that differ from checkpoint {last}"
        if changed.intersection(range(last_before + 1, last + 1)) and tag["adapter"] == adapter_before:
            yield f"{about}: sampled with the adapters before update {last}"
        last_before, adapter_before = last, tag["adapter"]
    return f"{len(inputs.steps)} rollouts, {compared} against a checkpoint"


def bound_problems(line: Mapping[str, Any]) -> Iterator[str]:
    """Numbers of a metrics line that no update can have: below zero, shares above 1, a part longer than the whole."""
    place = f"step {line.get('step')}"
    numbers = {name: line[name] for name in NEVER_NEGATIVE if name in line}
    # Divergences are sums of rounded terms, each at least 0 but for its rounding.
    if wrong := [name for name, value in numbers.items() if not is_number(value) or value < -ROUNDING]:
        yield f"{place}: {wrong[0]} is {str(numbers[wrong[0]])[:20]}"
    elif numbers.get("clip_fraction", 0) > 1 + ROUNDING:
        yield f"{place}: clip_fraction is {numbers['clip_fraction']:g}"
    elif "drawing_seconds" in numbers and numbers["drawing_seconds"] > line["seconds"]:
        yield f"{place}: drawing_seconds is {numbers['drawing_seconds']:g}, the whole step took {line['seconds']:g}"


def _objective_problems(inputs: RolloutInputs, rollout: Rollout, batch: Batch,
                        line: Mapping[str, Any]) -> Iterator[str]:
    """Numbers of the objective in a step's line that contradict the log probabilities that the update computed."""
    # With several updates per rollout, log probabilities are recorded for the first only.
    if inputs.shape.updates > 1 or len(rollout.trainer_log_probs) != len(rollout.trained_samples):
        return
    log_probs = trainer_log_probs(rollout, batch)
    for name, value, tolerance in expected_metrics(inputs.algorithm.objective, log_probs, batch):
        recorded = line.get(name)
        if not is_number(recorded) or not abs(recorded - value) <= tolerance:
            yield (f"step {line.get('step')}: {name} is {str(recorded)[:20]}, the recorded log probabilities give "
                   f"{value:g}")


def expected_metrics(objective: PolicyGradient, log_probs_BS: np.ndarray,
                     batch: Batch) -> Iterator[tuple[str, float, float]]:
    """Name, value and tolerance of the loss and of each metric of the objective."""
    mask_BS = _rows(batch.loss_mask)
    signals = {name: _rows(x) for name, x in batch.signals.items()}
    with np.errstate(all="ignore"):  # what overflows is no number that the log could have
        terms = objective.terms(_NUMPY, log_probs_BS, mask_BS, signals)
        size, near = _rounding(objective, log_probs_BS, mask_BS, signals)
    yield "loss", float(terms.total / batch.divisor), ROUNDING + CLOSE_SUM * size / batch.divisor
    for name, (total, count) in terms.metrics.items():
        value = float(total) / float(count) if count else 0.0
        slack = near / float(count) if name == "clip_fraction" and count else 0.0
        yield name, value, ROUNDING + CLOSE_SUM * abs(value) + slack


def _rounding(objective: PolicyGradient, log_probs_BS: np.ndarray, mask_BS: np.ndarray,
              signals: Mapping[str, np.ndarray]) -> tuple[float, float]:
    """Sum of the absolute terms of the loss, which bounds its rounding; number of tokens with a ratio near a bound."""
    tokens_B1 = mask_BS.sum(-1, keepdims=True)
    share_BS = mask_BS / np.maximum(tokens_B1, 1)
    log_ratio_BS = (log_probs_BS - signals[BEHAVIOR]) * mask_BS
    if objective.ratio == "sequence":
        log_ratio_BS = (log_ratio_BS * share_BS).sum(-1, keepdims=True) * mask_BS
    ratio_BS = np.exp(np.clip(log_ratio_BS, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO))
    sizes_BS = np.abs(signals[ADVANTAGE]) * ratio_BS
    if objective.bound == "detached":
        sizes_BS *= np.abs(log_probs_BS)
    if objective.kl_beta:
        sizes_BS += objective.kl_beta * (1 + np.abs(signals[REFERENCE] - log_probs_BS))
    bounds = [bound for bound in (1 - objective.clip_low, 1 + objective.clip_high) if bound > 0]
    near_BS = sum((np.abs(ratio_BS / bound - 1) < NEAR_BOUND) * mask_BS for bound in bounds)
    weights_BS = share_BS if objective.normalize == "sequences" else mask_BS
    return float((sizes_BS * weights_BS).sum()), float(np.sum(near_BS))


def trainer_log_probs(rollout: Rollout, batch: Batch) -> np.ndarray:
    """The update's log probabilities ``[B, S]``; 0 where nothing is learned, as engines have it."""
    log_probs_BS = np.zeros(_rows(batch.loss_mask).shape)
    for number, ((prompt, sample), drawn) in enumerate(zip(rollout.trained_samples, rollout.trainer_log_probs,
                                                           strict=True)):
        log_probs_BS[number, completion_span(prompt, sample)] = drawn
    return log_probs_BS


def _rows(x: np.ndarray) -> np.ndarray:
    """``[A, B, S]`` as rows, in the precision in which nothing here is rounded."""
    return x.reshape(-1, x.shape[-1]).astype("f8")
