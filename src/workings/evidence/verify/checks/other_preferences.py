"""Levels 1 and 2: the log of a run of KTO, ORPO or SimPO follows from its rows, its reference and itself.

Whether the log probabilities are the model's takes the weights: a replay computes them again.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from workings.errors import RecordError
from workings.evidence.verify.checks.data_order import batches_of, kept_rows, only_if_few_sequences, planned_steps
from workings.evidence.verify.checks.preference_pairs import FIRST_STEP_TOLERANCE, TOLERANCE, prompt_problems
from workings.evidence.verify.learning import algorithm_of, learns_from
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import check, finding_from
from workings.evidence.verify.result import CheckFinding
from workings.record.layout import CONFIG, REFERENCE_LOG_PROBS, ROWS
from workings.ways.kto import Kto


def _learns_without_reference(unit: Unit) -> bool:
    return learns_from("pairs")(unit) and REFERENCE_LOG_PROBS not in algorithm_of(unit).records


@check("consistency.preferences", when=learns_from("verdicts"), precondition=only_if_few_sequences)
def verdicts(unit: Unit) -> Iterator[CheckFinding]:
    """Neighbouring ids of kept and dropped rows; the same question and number of prompt tokens."""
    from workings.data.verdict_rows import verdict_ids
    names = verdict_ids([row["id"] for row in kept_rows(unit)])
    # Called for its errors: dropped rows have to come in twos as well.
    verdict_ids([str(row.get("id")) for row in unit.lines(ROWS) if row.get("status") == "dropped"])
    yield finding_from(prompt_problems(unit, names, "verdict"), f"{len(names):,} verdicts", unit)


@check("recompute.implied_rewards", when=learns_from("verdicts"), precondition=only_if_few_sequences)
def implied_rewards(unit: Unit) -> Iterator[CheckFinding]:
    """Log probability minus reward over beta is what the reference said; shares, drift and loss are possible ones."""
    from workings.data.pair_rows import read_log_prob_lines
    problems: list[str] = []
    algorithm, count = _algorithm(unit), 0
    said = read_log_prob_lines(unit.lines(REFERENCE_LOG_PROBS)) if unit.metrics else {}
    batches = batches_of(unit)
    for line, planned in planned_steps(unit):
        count += 1
        ids = [name for sequence in batches.row_ids(planned.at) for name in sequence]
        own, subject = ids[::2], f"step {line.get('step')}"
        if missing := [name for name in ids if name not in said]:
            problems.append(f"{subject}: nothing was said of {missing[0][:60]!r}")
            continue
        mean = math.fsum(said[name] for name in own) / len(own)
        problems += [f"{subject}: {problem}" for problem in _verdict_problems(
            algorithm, _numbers(line, algorithm), own, mean, first=line.get("step") == 1 and unit.in_float32_on_cpu)]
    yield finding_from(problems, f"{count} steps", unit)


def _verdict_problems(algorithm: Kto, numbers: Mapping[str, float], own: list[str], reference: float, *, first: bool
                      ) -> Iterator[str]:
    from workings.data.verdict_rows import verdict_of
    yield from _share_problems(numbers["accuracy"], len(own))
    size = 1 + abs(numbers["log_prob"]) + abs(reference)
    moved = numbers["implied_reward"] / algorithm.beta
    if abs(numbers["log_prob"] - moved - reference) > TOLERANCE * size:
        yield f"by the log the reference finds the rows {numbers['log_prob'] - moved:.6g}, it said {reference:.6g}"
    if numbers["drift"] < 0:
        yield f"a drift of {numbers['drift']:g}, which is at least 0"
    weights = [algorithm.right_weight if verdict_of(name) > 0 else algorithm.wrong_weight for name in own]
    if not 0 <= numbers["loss"] <= math.fsum(weights) / len(own) + TOLERANCE:
        yield f"loss {numbers['loss']:g}, which is between 0 and {math.fsum(weights) / len(own):g}"
    # Before the first update the model is the reference: every sigmoid is one half.
    if first and max(abs(moved), numbers["drift"]) > FIRST_STEP_TOLERANCE * size:
        yield f"rows {moved:.3g} and other completions {numbers['drift']:.3g} likelier than under the reference"
    if first and abs(numbers["loss"] - math.fsum(weights) / len(own) / 2) > FIRST_STEP_TOLERANCE * size:
        yield f"loss {numbers['loss']:g}, by these verdicts it begins at {math.fsum(weights) / len(own) / 2:g}"


@check("recompute.implied_rewards", when=_learns_without_reference, precondition=only_if_few_sequences)
def mean_rewards(unit: Unit) -> Iterator[CheckFinding]:
    """Rewards are beta times log probabilities, the margin is their difference, and the loss is a possible one."""
    problems: list[str] = []
    algorithm, count = _algorithm(unit), 0
    batches = batches_of(unit)
    for line, planned in planned_steps(unit):
        count += 1
        numbers, size = _numbers(line, algorithm), sum(map(len, batches.row_ids(planned.at))) // 2
        problems += [f"step {line.get('step')}: {problem}" for problem in _reward_problems(algorithm, numbers, size)]
    yield finding_from(problems, f"{count} steps", unit)


def _reward_problems(algorithm: Any, numbers: Mapping[str, float], pairs: int) -> Iterator[str]:
    yield from _share_problems(numbers["accuracy"], pairs)
    slack = TOLERANCE * (1 + algorithm.beta * (abs(numbers["chosen_log_prob"]) + abs(numbers["rejected_log_prob"])))
    for side in ("chosen", "rejected"):
        follows = algorithm.beta * numbers[f"{side}_log_prob"]
        if abs(numbers[f"{side}_reward"] - follows) > slack:
            yield f"{side} reward {numbers[f'{side}_reward']:g}, by its log probability it is {follows:g}"
    if abs(numbers["margin"] - (numbers["chosen_reward"] - numbers["rejected_reward"])) > slack:
        yield f"margin {numbers['margin']:g}, which is not the difference of its rewards"
    # -log sigmoid is convex: the mean loss is at least that of the mean.
    if "log_odds" in numbers:
        least = numbers["imitation_loss"] + algorithm.beta * _softplus(-numbers["log_odds"])
    else:
        least = _softplus(algorithm.gamma - numbers["margin"])
    if numbers["loss"] < least - slack:
        yield f"loss {numbers['loss']:g}, by the other numbers it is at least {least:g}"


def _softplus(x: float) -> float:
    return max(0.0, x) + math.log1p(math.exp(-abs(x)))


def _share_problems(share: float, count: int) -> Iterator[str]:
    if not 0 <= share <= 1 or abs(share * count - round(share * count)) > TOLERANCE * count:
        yield f"accuracy {share:g} of {count}"


def _algorithm(unit: Unit) -> Any:
    try:
        return algorithm_of(unit).model_validate(unit.manifest.config["algorithm"])
    except ValidationError as error:
        raise RecordError(f"{CONFIG}: algorithm cannot be read ({str(error)[:80]})") from None


def _numbers(line: Mapping[str, Any], algorithm: Any) -> dict[str, float]:
    """The objective's numbers in a line of the log. Raises `RecordError` for a missing one."""
    names = ("loss", *algorithm.objective.metrics)
    if missing := [name for name in names if isinstance(line.get(name), bool)
                   or not isinstance(line.get(name), int | float)]:
        raise RecordError(f"step {line.get('step')}: no {', '.join(missing)}")
    return {name: float(line[name]) for name in names}
