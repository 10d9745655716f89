"""Preference pairs of samples: a better and a worse completion of the same prompt."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from workings.data.preferences import PreferencePair
from workings.errors import RequestError
from workings.record.manifest import DRAWN_FROM
from workings.samples.candidates import Candidate, SampleOrigin, sample_of

RULES = ("best-worst", "right-wrong")


@dataclass(frozen=True, kw_only=True)
class PairRule:
    """Rules by which samples become pairs.

    The chosen one has ended and has the form of `SampleOrigin`; the rejected one has ended. A cut-off text would teach
    an end that the model did not write.
    """

    rule: str = "best-worst"
    """`best-worst`: the best with the worst, the second best with the second worst, and so on; `right-wrong`: the
    first correct one with the first wrong one, and so on."""
    most_per_prompt: int = 1
    """Maximum number of pairs per prompt; no text is in two pairs."""

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise RequestError(f"the rule {self.rule} of pairs is unknown", f"one of {', '.join(RULES)}")
        if self.most_per_prompt < 1:
            raise RequestError(f"most_per_prompt is {self.most_per_prompt}, too few for a pair", "at least 1")

    @classmethod
    def from_options(cls, rule: str | None, most_per_prompt: int | None) -> "PairRule | None":
        """The rule of two options; None without a rule. Raises `RequestError` for a number of pairs without a rule."""
        if rule is None:
            if most_per_prompt is not None:
                raise RequestError(f"--most-pairs {most_per_prompt} needs --pairs", "both",
                                   f"--pairs {RULES[0]} --most-pairs {most_per_prompt}")
            return None
        return cls(rule=rule) if most_per_prompt is None else cls(rule=rule, most_per_prompt=most_per_prompt)

    def to_json(self) -> dict[str, Any]:
        """JSON values for the record."""
        return asdict(self)


def make_pairs(prompts: Iterable[Sequence[Mapping[str, Any]]], rule: PairRule,
               origin: SampleOrigin) -> tuple[PreferencePair, ...]:
    """Makes pairs of the samples of each prompt, in the prompts' order.

    Args:
        prompts: lines of predictions, the samples of one prompt after the other.
        rule: which samples are paired.
        origin: form and source of the samples.
    """
    return tuple(_pair(chosen, rejected, origin) for rows in prompts
                 for chosen, rejected in islice(_paired(rows, rule, origin.form), rule.most_per_prompt))


def _paired(rows: Sequence[Mapping[str, Any]], rule: PairRule, form: str) -> list[tuple[Candidate, Candidate]]:
    distinct: dict[str, Candidate] = {}
    for sample in (sample_of(row, form) for row in rows):
        if sample.has_ended:
            # The first of equal texts represents all of them: a pair of a text with itself teaches nothing.
            distinct.setdefault(sample.text, sample)
    ended = list(distinct.values())
    in_form = [sample for sample in ended if not sample.problem]
    if rule.rule == "right-wrong":
        return list(zip([sample for sample in in_form if sample.is_right],
                        [sample for sample in ended if not sample.is_right], strict=False))
    # Sorting keeps the sampling order among equals. As long as the scores differ, no text is on both sides.
    pairs = zip(sorted(in_form, key=lambda sample: -sample.score), sorted(ended, key=lambda sample: sample.score),
                strict=False)
    return [(best, worst) for best, worst in pairs if best.score > worst.score]


def _pair(chosen: Candidate, rejected: Candidate, origin: SampleOrigin) -> PreferencePair:
    facts = {f"{side}_{key}": value for side, sample in (("chosen", chosen), ("rejected", rejected))
             for key, value in sample.facts.items()}
    return PreferencePair(id=f"{chosen.prompt_id}/{chosen.number}-{rejected.number}", prompt=chosen.prompt,
                          chosen=chosen.text, rejected=rejected.text, source=origin.source,
                          metadata={**facts, DRAWN_FROM: origin.drawn_from}, **chosen.labels)
