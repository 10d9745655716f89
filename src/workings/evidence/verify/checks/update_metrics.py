"""Numbers of an update that learned from a rollout: the objective, computed again from the recorded log probabilities.

With one update a rollout the recorded log probabilities are those of the update itself, so its loss, entropy and
divergences follow. Of later updates from one rollout nothing but the bounds of these numbers is known.
"""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

from workings.evidence.verify.rollout_inputs import RolloutInputs
from workings.objectives.base import ArrayFunctions
from workings.objectives.policy_gradient import ADVANTAGE, BEHAVIOR, LARGEST_LOG_RATIO, REFERENCE, PolicyGradient

if TYPE_CHECKING:
    import numpy as np

    from workings.models.batch import Batch
    from workings.rollouts.rollout import Rollout

CLOSE = 1e-4
"""Share of the sum of absolute values by which a float32 sum over many tokens may differ from the one here."""
ROUNDING = 1e-6
"""Rounding of a single token's number, in nats."""
NEAR_BOUND = 1e-4
"""Relative distance from a bound of the ratio within which rounding decides on which side of it a token is."""
NEVER_NEGATIVE = ("drawing_seconds", "kl_behavior", "kl_reference", "clip_fraction")


def bound_problems(line: Mapping[str, Any]) -> list[str]:
    """Numbers of a line that no update can have: below zero, shares above 1, a part that takes longer than the whole.

    Args:
        line: of `train/metrics.jsonl`.
    """
    place = f"step {line.get('step')}"
    numbers = {name: line[name] for name in NEVER_NEGATIVE if name in line}
    # Divergences are sums of rounded terms, each at least 0 but for its rounding.
    problems = [f"{place}: {name} is {str(value)[:20]}" for name, value in numbers.items()
                if not _is_number(value) or value < -ROUNDING]
    if not problems and numbers.get("clip_fraction", 0) > 1 + ROUNDING:
        problems.append(f"{place}: clip_fraction is {numbers['clip_fraction']:g}")
    if not problems and "drawing_seconds" in numbers and numbers["drawing_seconds"] > line["seconds"]:
        problems.append(f"{place}: drawing_seconds is {numbers['drawing_seconds']:g}, the whole step took "
                        f"{line['seconds']:g}")
    return problems


def objective_problems(inputs: RolloutInputs, rollout: "Rollout", batch: "Batch", line: Mapping[str, Any]) -> list[str]:
    """Numbers of the objective in the log that contradict the recorded log probabilities.

    Args:
        inputs: of the rollouts of the run.
        rollout: that the update learned from, with the log probabilities that the update computed.
        batch: of the update.
        line: of the step, from `train/metrics.jsonl`.
    """
    # With several updates per rollout, log probabilities are recorded for the first only.
    if inputs.shape.updates > 1 or len(rollout.trainer_log_probs) != len(rollout.trained_samples):
        return []
    problems = []
    log_probs = trainer_log_probs(rollout, batch)
    for name, value, tolerance in expected_metrics(inputs.algorithm.objective, log_probs, batch):
        recorded = line.get(name)
        if not _is_number(recorded) or not abs(recorded - value) <= tolerance:
            problems.append(f"step {line.get('step')}: {name} is {str(recorded)[:20]}, the recorded log probabilities "
                            f"give {value:g}")
    return problems


def expected_metrics(objective: PolicyGradient, log_probs_BS: "np.ndarray",
              batch: "Batch") -> Iterator[tuple[str, float, float]]:
    """Name, value and tolerance of the loss and of each metric of the objective."""
    import numpy as np
    mask_BS = _rows(batch.loss_mask)
    signals = {name: _rows(x) for name, x in batch.signals.items()}
    with np.errstate(all="ignore"):  # what overflows is no number that the log could have
        terms = objective.terms(_array_functions(), log_probs_BS, mask_BS, signals)
        size, near = _rounding(objective, log_probs_BS, mask_BS, signals)
    yield "loss", float(terms.total / batch.divisor), ROUNDING + CLOSE * size / batch.divisor
    for name, (total, count) in terms.metrics.items():
        value = float(total) / float(count) if count else 0.0
        slack = near / float(count) if name == "clip_fraction" and count else 0.0
        yield name, value, ROUNDING + CLOSE * abs(value) + slack


def _rounding(objective: PolicyGradient, log_probs_BS: "np.ndarray", mask_BS: "np.ndarray",
              signals: Mapping[str, "np.ndarray"]) -> tuple[float, float]:
    """The sum of the sizes of the loss's terms, which may cancel, and the number of tokens close to a bound."""
    import numpy as np

    # The terms' sizes bound the rounding of their sum: terms that cancel leave a small sum with a large error.
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
    return float((sizes_BS * (share_BS if objective.normalize == "sequences" else mask_BS)).sum()), float(
        np.sum(near_BS))


def trainer_log_probs(rollout: "Rollout", batch: "Batch") -> "np.ndarray":
    """The update's log probabilities ``[B, S]``; 0 where nothing is learned, as engines have it."""
    import numpy as np

    from workings.rollouts.rollout import completion_span
    log_probs_BS = np.zeros(_rows(batch.loss_mask).shape)
    for number, ((prompt, sample), drawn) in enumerate(zip(rollout.trained_samples, rollout.trainer_log_probs,
                                                           strict=True)):
        log_probs_BS[number, completion_span(prompt, sample)] = drawn
    return log_probs_BS


def _rows(x: "np.ndarray") -> "np.ndarray":
    """``[A, B, S]`` as rows, in the precision in which nothing here is rounded."""
    return x.reshape(-1, x.shape[-1]).astype("f8")


def _array_functions() -> ArrayFunctions:
    import numpy as np

    return ArrayFunctions(exp=np.exp, expm1=np.expm1, log=np.log, minimum=np.minimum, clip=np.clip,
                          log_sigmoid=lambda x: -np.logaddexp(0, -x), stop_gradient=np.asarray,
                          stack=lambda arrays: np.stack(arrays, -1))


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
