"""Levels 1 and 2: the log of a run that learned from pairs or verdicts follows from its rows and from itself.

A pair is a chosen and a rejected completion, a verdict calls one right or wrong; the reference is the model before
training. No weights are needed. Whether the log probabilities are the reference's, only a replay can tell.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from workings.data.batches import Position
from workings.data.pair_rows import pair_ids, read_log_prob_lines, verdict_ids, verdict_of
from workings.errors import RecordError
from workings.evidence.verify.checks.data_order import batches_of, kept_rows, planned_steps, row_ids
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import Found, check, is_number, learns_from, records, same_json
from workings.record.layout import MANIFEST, REFERENCE_LOG_PROBS, ROWS
from workings.ways.preferences import Dpo, Kto

TOLERANCE = 1e-5
"""Tolerance for sums of float32 numbers, as a share of the numbers that are added up."""
FIRST = "step 1"
FIRST_STEP_TOLERANCE = 1e-4
"""Tolerance for log probabilities that two programs compute in float32."""


def _learns_by_reference(unit: Unit) -> bool:
    return learns_from("pairs")(unit) and records(REFERENCE_LOG_PROBS)(unit)


@check("consistency.preferences", when=lambda unit: unit.algorithm.examples in ("pairs", "verdicts"))
def pairs(unit: Unit) -> Found:
    """Rows come in twos with the ids of one example: of one prompt, and for a pair with two different completions."""
    rows = kept_rows(unit)
    kind, ids_of = "verdict", verdict_ids
    if learns_from("pairs")(unit):
        kind, ids_of = "pair", pair_ids
    names = ids_of([row["id"] for row in rows])
    ids_of([str(row.get("id")) for row in unit.lines(ROWS) if row.get("status") == "dropped"])  # raises for other ids
    for name, one, other in zip(names, rows[::2], rows[1::2], strict=True):
        if one.get("prompt_digest") != other.get("prompt_digest") or _prompt_tokens(one) != _prompt_tokens(other):
            yield f"{kind} {name[:60]!r}: completions of different prompts"
        if kind == "pair" and one["digest"] == other["digest"]:
            yield f"pair {name[:60]!r}: one completion, chosen and rejected"
    recorded = unit.manifest.facts.get("pairs", len(names))
    if not same_json(recorded, len(names)):
        yield f"{MANIFEST} says {str(recorded)[:20]} {kind}s, the row index has {len(names)}"
    return f"{len(names):,} {kind}s"


@check("consistency.preferences", when=records(REFERENCE_LOG_PROBS))
def reference(unit: Unit) -> Found:
    """One log probability, at most 0, for each row of the first epoch that a planned step takes."""
    if not unit.metrics and not unit.has(REFERENCE_LOG_PROBS):  # the run ended before they were computed
        return None
    log_probs, batches = _log_probs(unit), batches_of(unit)
    batch_count = min(unit.manifest.planned_steps, batches.batches_in_epoch(0))
    expected = {name for number in range(batch_count) for name in row_ids(batches, Position(0, number))}
    if log_probs.keys() != expected:
        on_one_side = len(expected.symmetric_difference(log_probs))
        yield (f"{REFERENCE_LOG_PROBS} has {len(log_probs)} rows, {on_one_side} of them or of the {len(expected)} "
               "learned ones only on one side")
    # A logarithm of a probability is at most 0; rounding may lift a sum a little.
    yield from (f"row {name[:60]!r}: log probability {x:g}" for name, x in log_probs.items() if not x <= 1e-3)
    return f"{len(log_probs):,} rows"


@check("consistency.preferences", when=_learns_by_reference)
def preferences(unit: Unit) -> Found:
    """Accuracy and margin of each step against pairs and rewards; the loss agrees with margin and accuracy."""
    algorithm: Dpo = _algorithm(unit)
    for step in _steps(unit):
        slack = TOLERANCE * (1 + algorithm.beta * _scale(step.numbers))
        problems = [*_share_problems(step.numbers["accuracy"], len(step.chosen)),
                    *_margin_is_difference(step.numbers, slack),
                    *margin_problems(algorithm, step.numbers, len(step.chosen), slack)]
        yield from (f"{step.name}: {problem}" for problem in problems)
    return f"{len(unit.metrics)} steps"


@check("recompute.implied_rewards", when=_learns_by_reference)
def implied_rewards(unit: Unit) -> Found:
    """Log probability minus reward over beta is what the reference said; the first rewards are 0."""
    algorithm: Dpo = _algorithm(unit)
    reference_log_probs = _log_probs(unit) if unit.metrics else {}
    for step in _steps(unit):
        is_first = step.name == FIRST and unit.in_float32_on_cpu
        if is_first:
            # The model is the reference itself: the loss is that of a sigmoid of 0, or of 0 in place of IPO's margin.
            loss = math.log(2) if algorithm.loss == "sigmoid" else 1 / (4 * algorithm.beta ** 2)
            scale = 1 + _scale(step.numbers) * max(1, 1 / algorithm.beta)
            if not abs(step.numbers["loss"] - loss) <= FIRST_STEP_TOLERANCE * scale:
                yield f"{FIRST}: loss {step.numbers['loss']:g}, by this algorithm it begins at {loss:g}"
        for side, names in (("chosen", step.chosen), ("rejected", step.rejected)):
            # reward = beta (log p - reference), so the reference follows from the log: log p - reward / beta.
            mean = math.fsum(reference_log_probs[name] for name in names) / len(names)
            now, moved = step.numbers[f"{side}_log_prob"], step.numbers[f"{side}_reward"] / algorithm.beta
            size = 1 + abs(now) + abs(mean)
            if not abs(now - moved - mean) <= TOLERANCE * size:
                yield (f"{step.name}: by the log the reference finds the {side} rows {now - moved:.6g}, it said "
                       f"{mean:.6g}")
            elif is_first and not abs(moved) <= FIRST_STEP_TOLERANCE * size:
                yield (f"{FIRST}: the {side} rows are {moved:.3g} likelier than under the reference, which is the "
                       "model before this step")
    first = "" if unit.in_float32_on_cpu else "; that the first ones are 0 is compared in float32 on a CPU only"
    return f"{2 * len(unit.metrics)} means of rewards{first}"


def _prompt_tokens(row: Mapping[str, Any]) -> int:
    return int(row["tokens"]) - int(row["supervised_tokens"])


def _algorithm(unit: Unit) -> Any:
    return unit.algorithm.model_validate(unit.manifest.config["algorithm"])


def _log_probs(unit: Unit) -> dict[str, float]:
    return read_log_prob_lines(unit.lines(REFERENCE_LOG_PROBS))


class _Step(NamedTuple):
    name: str
    numbers: dict[str, float]
    """The objective's numbers in the step's line of the log."""
    chosen: list[str]
    """Ids of its rows with chosen completions; of verdicts, with the completions that were judged."""
    rejected: list[str]
    """Ids of the others."""


def _steps(unit: Unit) -> Iterator[_Step]:
    """The steps of a run. Raises `RecordError` for a line without one of the objective's numbers."""
    names = ("loss", *_algorithm(unit).objective.metrics)
    for planned in planned_steps(unit):
        line, ids = planned.line, row_ids(batches_of(unit), planned.at)
        if missing := [name for name in names if not is_number(line.get(name))]:
            raise RecordError(f"step {line['step']}: no {', '.join(missing)}")
        yield _Step(f"step {line['step']}", {name: float(line[name]) for name in names}, ids[::2], ids[1::2])


def _share_problems(share: float, count: int) -> Iterator[str]:
    # A share of rows, times their number, is a whole number up to float32's rounding.
    if not 0 <= share <= 1 or abs(share * count - round(share * count)) > TOLERANCE * count:
        yield f"accuracy {share:g} of {count}"


def _margin_is_difference(numbers: Mapping[str, float], slack: float) -> Iterator[str]:
    difference = numbers["chosen_reward"] - numbers["rejected_reward"]
    if not abs(numbers["margin"] - difference) <= slack:
        yield f"margin {numbers['margin']:g}, its rewards are {difference:g} apart"


def _scale(numbers: Mapping[str, float]) -> float:
    return abs(numbers["chosen_log_prob"]) + abs(numbers["rejected_log_prob"])


def margin_problems(algorithm: Dpo, numbers: Mapping[str, float], pairs: int, slack: float) -> Iterator[str]:
    """Problems of a step's ``accuracy`` against its mean ``margin``, and of its ``loss`` against both.

    ``pairs``: their number in the step; ``slack``: how far rounding may move a margin.
    """
    right = round(numbers["accuracy"] * pairs)
    margin, loss = numbers["margin"], numbers["loss"]
    if (right == pairs and margin < -slack) or (right == 0 and margin > slack):
        yield f"a margin of {margin:g}, with {'every' if right else 'no'} pair correct"
        return
    least, most = 0.0, math.inf
    # Smoothed labels add their share of the margin, because the losses of m and of -m differ by m.
    if algorithm.loss == "sigmoid" and not algorithm.length_normalized:
        least, most = (bound + algorithm.label_smoothing * margin for bound in loss_bounds(margin, right, pairs))
    if not least - slack <= loss <= most + slack:
        yield f"loss {loss:g}, with this margin and accuracy it is at least {least:g} and at most {most:g}"


def loss_bounds(margin: float, right: int, pairs: int) -> tuple[float, float]:
    """Least and greatest mean loss of pairs with this mean margin and this number of margins above 0.

    Least: pairs on the side of the mean share the sum, the others are at 0. Two pairs with a mean of 1, one of them
    above 0, have the margins 2 and 0. Greatest, if all are on one side: one has the whole sum, the others are at 0.
    """
    total = margin * pairs
    same_side = right if total > 0 else pairs - right
    at_zero = pair_loss(0.0)
    least, most = at_zero, math.inf
    if same_side:  # rounding may leave no pair on the side of a mean that is all but 0
        least = ((pairs - same_side) * at_zero + same_side * pair_loss(total / same_side)) / pairs
    if right in (0, pairs):
        most = ((pairs - 1) * at_zero + pair_loss(total)) / pairs
    return least, most


def pair_loss(margin: float) -> float:
    """Minus the logarithm of a sigmoid of the margin, written so that no exponential overflows."""
    return max(0.0, -margin) + math.log1p(math.exp(-abs(margin)))


@check("recompute.implied_rewards", when=learns_from("verdicts"))
def verdict_rewards(unit: Unit) -> Found:
    """Log probability minus reward over beta is what the reference said; shares, drift and loss are possible ones."""
    algorithm = _algorithm(unit)
    reference_log_probs = _log_probs(unit) if unit.metrics else {}
    for step in _steps(unit):
        mean = math.fsum(reference_log_probs[name] for name in step.chosen) / len(step.chosen)
        yield from (f"{step.name}: {problem}" for problem in _verdict_problems(
            algorithm, step.numbers, step.chosen, mean, first=step.name == FIRST and unit.in_float32_on_cpu))
    return f"{len(unit.metrics)} steps"


def _verdict_problems(algorithm: Kto, numbers: Mapping[str, float], own: list[str], reference: float, *, first: bool
                      ) -> Iterator[str]:
    """Problems of a step; ``reference``: mean log probability of its own rows under the reference."""
    yield from _share_problems(numbers["accuracy"], len(own))
    size = 1 + abs(numbers["log_prob"]) + abs(reference)
    moved = numbers["implied_reward"] / algorithm.beta
    if abs(numbers["log_prob"] - moved - reference) > TOLERANCE * size:
        yield f"by the log the reference finds the rows {numbers['log_prob'] - moved:.6g}, it said {reference:.6g}"
    if numbers["drift"] < 0:
        yield f"a drift of {numbers['drift']:g}, which is at least 0"
    weights = [algorithm.right_weight if verdict_of(name) > 0 else algorithm.wrong_weight for name in own]
    most = math.fsum(weights) / len(own)
    if not 0 <= numbers["loss"] <= most + TOLERANCE:
        yield f"loss {numbers['loss']:g}, which is between 0 and {most:g}"
    # Before the first update the model is the reference: every sigmoid is one half.
    if first and max(abs(moved), numbers["drift"]) > FIRST_STEP_TOLERANCE * size:
        yield f"rows {moved:.3g} and other completions {numbers['drift']:.3g} likelier than under the reference"
    if first and abs(numbers["loss"] - most / 2) > FIRST_STEP_TOLERANCE * size:
        yield f"loss {numbers['loss']:g}, by these verdicts it begins at {most / 2:g}"


@check("recompute.implied_rewards", when=lambda unit: learns_from("pairs")(unit) and not _learns_by_reference(unit))
def mean_rewards(unit: Unit) -> Found:
    """Rewards are beta times log probabilities, the margin is their difference, and the loss is a possible one."""
    algorithm = _algorithm(unit)
    for step in _steps(unit):
        yield from (f"{step.name}: {problem}"
                    for problem in _reward_problems(algorithm, step.numbers, len(step.chosen)))
    return f"{len(unit.metrics)} steps"


def _reward_problems(algorithm: Any, numbers: Mapping[str, float], pairs: int) -> Iterator[str]:
    yield from _share_problems(numbers["accuracy"], pairs)
    slack = TOLERANCE * (1 + algorithm.beta * _scale(numbers))
    for side in ("chosen", "rejected"):
        follows = algorithm.beta * numbers[f"{side}_log_prob"]
        if abs(numbers[f"{side}_reward"] - follows) > slack:
            yield f"{side} reward {numbers[f'{side}_reward']:g}, by its log probability it is {follows:g}"
    yield from _margin_is_difference(numbers, slack)
    # -log sigmoid is convex: the mean loss is at least that of the mean.
    if "log_odds" in numbers:
        least = numbers["imitation_loss"] + algorithm.beta * pair_loss(numbers["log_odds"])
    else:
        least = pair_loss(numbers["margin"] - algorithm.gamma)
    if numbers["loss"] < least - slack:
        yield f"loss {numbers['loss']:g}, by the other numbers it is at least {least:g}"
