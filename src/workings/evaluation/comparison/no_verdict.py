"""Withhold verdicts that the measure may cause: answers that no rule found, or one answer to everything.

The statistics are unchanged; only the words "better" and "worse" are withheld.
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
"""Above this share of completions without an answer, a verdict must survive their most generous reading."""
MOST_APART = 0.1
"""Above this difference of the shares it must survive it as well."""
MOST_ALIKE = 0.9
"""Above this share of one same answer, a side ignores the question."""
_READ_THEM = ("read some of them (`workings ui`); then score both sides in a way that can read them: `workings eval` "
              "with --scorer contains or --scorer judge, or ask for an answer form in the questions")
_NOT_FOUND = "no answer was found in"


@dataclass(frozen=True, kw_only=True)
class MeasuredSide:
    """One side of a comparison, in the same order of items as the other."""

    name: str
    counts: AnswerCounts
    scores: Sequence[float]
    generous: Sequence[float]
    """Scores that count every completion without an answer as correct if it contains the expected one."""
    no_answer: Sequence[float]
    clusters: Sequence[str]


def measured_side(name: str, counts: AnswerCounts, results: Sequence[ItemResult]) -> MeasuredSide:
    """A side by the results of its items."""
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
        counts=AnswerCounts(no_answer=fmean([one.no_answer for one in counts]),
                            unread=fmean([one.unread for one in counts]),
                            distinct_answers=max(one.distinct_answers for one in counts),
                            same_answer=fmean([one.same_answer for one in counts]),
                            majority_accuracy=counts[0].majority_accuracy))


def reasons_against(ahead: MeasuredSide, behind: MeasuredSide, *, holds: bool) -> list[str]:
    """Why a verdict in favour of a side is withheld, and what to do; empty if it may be given.

    Missing answers are no obstacle if the verdict holds under the most generous reading. One answer to everything is
    no obstacle if the losing side gives it and the other side beats every constant answer. ``holds`` is whether the
    verdict holds with the generous scores of the side behind.
    """
    reasons = []
    shares = [side.counts.no_answer for side in (ahead, behind)]
    if (max(shares) > MOST_WITHOUT_ANSWER or abs(shares[0] - shares[1]) > MOST_APART) and not holds:
        reasons.append(
            f"No verdict, because {_NOT_FOUND} {percent(shares[0])} of the completions of {ahead.name} and "
            f"{percent(shares[1])} of {behind.name}: the difference may be how they write, not what they answer "
            f"({percent(fmean(behind.generous))} of {behind.name} would be correct if each of these counted that "
            f"contains the expected answer). To get one: {_READ_THEM}.")
    reasons += [reason for side in (ahead, behind) if (reason := _one_answer(side, ahead))]
    return reasons


def _one_answer(side: MeasuredSide, ahead: MeasuredSide) -> str:
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
    # No generous reading bounds an equivalence from both sides.
    holds = verdict != "equivalent" and paired_values(behind.generous, ahead.scores, a.clusters).verdict == "better"
    reasons = reasons_against(ahead, behind, holds=holds) if verdict != "inconclusive" else []
    # A refusal for missing answers already names their shares.
    if any(_NOT_FOUND in reason for reason in reasons) or paired_values(
            a.no_answer, b.no_answer, a.clusters).verdict == "inconclusive":
        return bool(reasons), reasons
    return bool(reasons), [*reasons, (
        f"No answer was found in {percent(b.counts.no_answer)} of the completions of {b.name} and "
        f"{percent(a.counts.no_answer)} of {a.name}: part of the difference may be how they write.")]
