"""Withhold a verdict if completions without a found answer, or the same answer to every item, may have caused it.

The statistics stay; only the words "better" and "worse" are withheld.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from workings.evaluation.answer_counts import AnswerCounts
from workings.evaluation.comparison.paired import paired_values
from workings.evaluation.scorecard import ItemResult, mean_interval
from workings.evaluation.statistics import Interval
from workings.record.number_text import percent

MOST_WITHOUT_ANSWER = 0.2
"""Above this share of completions without an answer, a verdict must also hold with the generous scores."""
MOST_APART = 0.1
"""The same holds if the two sides' shares of completions without an answer differ by more than this."""
MOST_ALIKE = 0.9
"""A side that gives the same answer to a larger share of the items is taken to ignore the questions."""
_READ_THEM = ("read some of them (`workings ui`); then score both sides in a way that can read them: `workings eval` "
              "with --scorer contains or --scorer judge, or ask for an answer form in the questions")
_NOT_FOUND = "no answer was found in"


@dataclass(frozen=True, kw_only=True)
class MeasuredSide:
    """One side of a comparison. Its values are per item, in the same order on both sides."""

    name: str
    counts: AnswerCounts
    scores: Sequence[float]
    generous: Sequence[float]
    """Scores if every completion without an answer counted as correct when it contains the expected answer."""
    no_answer: Sequence[float]
    """Share of an item's completions without an answer."""
    clusters: Sequence[str]


def measured_side(name: str, counts: AnswerCounts, results: Sequence[ItemResult]) -> MeasuredSide:
    """The side with these results."""
    return MeasuredSide(
        name=name, counts=counts, scores=[result.score for result in results],
        generous=[min(1.0, result.score + result.measures.get("names_expected", 0.0)) for result in results],
        no_answer=[result.measures.get("no_answer", 0.0) for result in results],
        clusters=[result.cluster for result in results])


def pooled(name: str, sides: Sequence[MeasuredSide]) -> MeasuredSide:
    """Several runs on the same items as one side: means over the runs."""
    def means(values: Sequence[Sequence[float]]) -> list[float]:
        return [fmean(column) for column in zip(*values, strict=True)]

    counts = [side.counts for side in sides]
    return MeasuredSide(
        name=name, clusters=sides[0].clusters, scores=means([side.scores for side in sides]),
        generous=means([side.generous for side in sides]), no_answer=means([side.no_answer for side in sides]),
        counts=AnswerCounts(
            no_answer=fmean(run.no_answer for run in counts), unread=fmean(run.unread for run in counts),
            distinct_answers=max(run.distinct_answers for run in counts),
            same_answer=fmean(run.same_answer for run in counts), majority_accuracy=counts[0].majority_accuracy))


def reasons_against(ahead: MeasuredSide, behind: MeasuredSide, *, holds: bool) -> list[str]:
    """Why a verdict that one side is ahead is withheld, and what to do; empty if it may be given.

    ``holds`` says whether the verdict also holds with the generous scores of the side behind; then missing answers do
    not withhold it. The same answer to every item does not, if the side behind gives it and the other side is better
    than any constant answer.
    """
    reasons = []
    missing_ahead, missing_behind = ahead.counts.no_answer, behind.counts.no_answer
    many_missing = max(missing_ahead, missing_behind) > MOST_WITHOUT_ANSWER
    if (many_missing or abs(missing_ahead - missing_behind) > MOST_APART) and not holds:
        reasons.append(
            f"No verdict, because {_NOT_FOUND} {percent(missing_ahead)} of the completions of {ahead.name} and "
            f"{percent(missing_behind)} of {behind.name}: the difference may be how they write, not what they answer "
            f"({percent(fmean(behind.generous))} of {behind.name} would be correct if each of these counted that "
            f"contains the expected answer). To get one: {_READ_THEM}.")
    return [*reasons, *filter(None, (_one_answer(side, ahead) for side in (ahead, behind)))]


def _one_answer(side: MeasuredSide, ahead: MeasuredSide) -> str:
    """Why a side's answers say nothing, if it gives the same one to nearly every item; else empty."""
    counts = side.counts
    if counts.same_answer <= MOST_ALIKE or counts.majority_accuracy > MOST_ALIKE:
        return ""
    interval = mean_interval(ahead.scores, ahead.clusters)
    if side is not ahead and isinstance(interval, Interval) and interval.low > counts.majority_accuracy:
        return ""
    return (f"No verdict, because {side.name} gives one answer to {percent(counts.same_answer)} of the items, which "
            f"have several; always giving the most frequent expected answer would reach "
            f"{percent(counts.majority_accuracy)}. To get one: items with several expected answers that are about "
            "equally frequent, or a model that answers the question.")


def noise_of(a: MeasuredSide, b: MeasuredSide, verdict: str) -> tuple[bool, list[str]]:
    """Whether the verdict on B is withheld, and the warnings about missing or constant answers."""
    ahead, behind = (a, b) if verdict == "worse" else (b, a)
    # Generous scores of one side say nothing about an equivalence, which has two.
    holds = verdict != "equivalent" and paired_values(behind.generous, ahead.scores, a.clusters).verdict == "better"
    reasons = reasons_against(ahead, behind, holds=holds) if verdict != "inconclusive" else []
    missing_named = any(_NOT_FOUND in reason for reason in reasons)
    if missing_named or paired_values(a.no_answer, b.no_answer, a.clusters).verdict == "inconclusive":
        return bool(reasons), reasons
    return bool(reasons), [
        *reasons, f"No answer was found in {percent(b.counts.no_answer)} of the completions of {b.name} and "
        f"{percent(a.counts.no_answer)} of {a.name}: part of the difference may be how they write."]
