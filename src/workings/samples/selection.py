"""Selects samples for training, as traces or as preference pairs.

The input are the samples of each prompt, as lines of a unit's predictions; the rules are `Selection` and `PairRule`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from workings.data.preferences import PreferencePair
from workings.data.row_fields import ITEM_LABELS
from workings.data.traces import Trace, split_completion
from workings.errors import RequestError
from workings.evaluation.predictions import item_of
from workings.record.digest import json_digest
from workings.record.manifest import DRAWN_FROM
from workings.scoring.items import UNSPECIFIED

NO_TEXT, CUT_OFF, OTHER_FORM = "no text", "cut off", "another form"
CONTROL, WHITE_SPACE = "control tokens", "white space at its ends"
"""Reasons why a completion cannot be trained on, regardless of its score."""
WRONG, NOT_THE_BEST, SAME_TEXT = "wrong", "not the best", "same text"
WRONG_STEP, ENOUGH = "wrong step", "enough of its prompt"
"""Reasons why a usable sample is left out."""
RIGHT = 1.0
"""The score of a correct answer."""
KEEP = ("correct", "best", "all")
"""Values of `Selection.keep`."""
RULES = ("best-worst", "right-wrong")
"""Values of `PairRule.rule`."""


@dataclass(frozen=True, kw_only=True)
class SampleOrigin:
    """Origin of all samples of a unit."""

    form: str
    """Form of reasoning and answer: one of `workings.data.traces.STYLES`."""
    source: str
    """Name of the model, with the beginning of its digest."""
    drawn_from: str
    """Digest of the model: the root of its run, or one over its weights."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "SampleOrigin":
        """The origin in a unit's ``eval_config.json``."""
        model, root = config["model"], config["made_from"]
        # A run has a name, other weights have an id, and a caller may have described neither.
        name = model.get("run") or model.get("id") or "a model that was not described"
        # Weights without a run have no root; the digest is then one over the digests of their files.
        digest = root if isinstance(root, str) else json_digest(model.get("weights", dict(model)))
        return cls(form=str(config["form"]), source=f"samples of {name} {digest[:16]}", drawn_from=digest)


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A completion of a prompt with its score and its problems."""

    prompt_id: str
    number: int
    """Number among the samples of its prompt, from 0."""
    prompt: str
    text: str
    score: float
    seed: int
    """Sampling seed; -1 for a greedy completion."""
    labels: Mapping[str, Any]
    """Section, category, difficulty and earlier turns of its item, as far as it has them."""
    problem: str
    """A reason why it cannot be trained on; empty if it can."""
    has_wrong_step: bool = False
    steps: tuple[str, ...] = ()
    answer: str = ""

    @property
    def is_right(self) -> bool:
        """Whether its answer is correct."""
        return self.score == RIGHT

    @property
    def facts(self) -> dict[str, Any]:
        """Number, seed and score, as metadata of a trace or a pair."""
        return {"sample": self.number, **({"seed": self.seed} if self.seed >= 0 else {}), "score": self.score}


def sample_of(row: Mapping[str, Any], form: str) -> Candidate:
    """The sample of a line of predictions in a form (see `SampleOrigin`). Raises `RecordError`."""
    completion = row["completion"]
    is_recorded = isinstance(completion, str) and not {"completion_sha256", "error"} & row.keys()
    text = completion if is_recorded and completion.strip() else ""
    problem = _problem(row, text)
    parts = split_completion(text, form) if row["format_ok"] is True and not problem else None
    if parts is None and not problem:
        problem = OTHER_FORM
    steps, answer = parts or ((), "")
    item = item_of(row)
    labels = {name: getattr(item, name) for name in ITEM_LABELS if getattr(item, name) not in (UNSPECIFIED, "")}
    if item.history:
        labels["history"] = item.history
    return Candidate(prompt_id=row["id"], number=row["sample"], prompt=row["prompt"], text=text, score=row["score"],
                     seed=row.get("seed", -1), labels=labels, problem=problem,
                     has_wrong_step=row["steps_valid"] < row["steps_checked"], steps=steps, answer=answer)


def _problem(row: Mapping[str, Any], text: str) -> str:
    """Why no row can be made of a completion, whatever its form; empty if one can."""
    if not text:
        return NO_TEXT
    if row["finish_reason"] != "stop":
        return CUT_OFF
    # In a row such a token would end or forge a turn.
    if row.get("control_tokens"):
        return CONTROL
    # Chat templates remove white space, so another text than the sample would be trained on.
    return WHITE_SPACE if text != text.strip() else ""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Rules by which samples are kept."""

    keep: str = "correct"
    """`correct`: correct answers; `best`: the highest score of each prompt, if above 0; `all`."""
    valid_steps: bool = False
    """Whether a sample with a wrong equation is left out, regardless of its answer."""
    most_per_prompt: int = 0
    """Maximum number of kept samples per prompt, in the order of sampling; 0: all."""

    def __post_init__(self) -> None:
        if self.keep not in KEEP:
            raise RequestError(f"keep: {self.keep} is unknown", f"one of {', '.join(KEEP)}")
        if self.most_per_prompt < 0:
            raise RequestError(f"most_per_prompt is negative: {self.most_per_prompt}", "at least 1, or 0 for all")

    def refusal(self, sample: Candidate, best: float) -> str:
        """Why a usable sample is left out, if the usable ones of its prompt score ``best`` at most; empty if not."""
        if self.keep == "correct" and not sample.is_right:
            return WRONG
        if self.keep == "best" and (sample.score < best or sample.score <= 0):
            return NOT_THE_BEST
        return WRONG_STEP if self.valid_steps and sample.has_wrong_step else ""


RIGHT_SAMPLES = Selection()


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Counts of solved prompts, and of kept and left-out samples."""

    prompts: int
    never: int
    """Number of prompts without a correct sample."""
    sometimes: int
    always: int
    """Number of prompts whose samples are all correct."""
    with_kept: int
    """Number of prompts with a kept sample."""
    samples: int
    kept: int
    left_out: Mapping[str, int]
    """Number of left-out samples by reason."""


def select(prompts: Iterable[Sequence[Mapping[str, Any]]], selection: Selection, origin: SampleOrigin
           ) -> tuple[tuple[Trace, ...], Counts]:
    """The kept samples of each prompt, given as its lines of predictions, as traces in their order; and counts."""
    kept: list[Candidate] = []
    solved: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    for rows in prompts:
        samples = [sample_of(row, origin.form) for row in rows]
        # Over all samples, also unusable ones: these counts are about the prompt.
        right = [sample.is_right for sample in samples]
        solved["never" if not any(right) else "always" if all(right) else "sometimes"] += 1
        reasons = _reasons(samples, selection)
        kept += [sample for sample, reason in zip(samples, reasons, strict=True) if not reason]
        left_out.update(filter(None, reasons))
    counts = Counts(
        prompts=solved.total(), never=solved["never"], sometimes=solved["sometimes"], always=solved["always"],
        with_kept=len({sample.prompt_id for sample in kept}), samples=len(kept) + left_out.total(), kept=len(kept),
        left_out=dict(sorted(left_out.items())))
    # Their completions are exactly the texts of the samples.
    traces = tuple(Trace(
        id=f"{sample.prompt_id}/{sample.number}", prompt=sample.prompt, steps=sample.steps, answer=sample.answer,
        source=origin.source, metadata={**sample.facts, DRAWN_FROM: origin.drawn_from}, **sample.labels)
        for sample in kept)
    return traces, counts


def _reasons(samples: Sequence[Candidate], selection: Selection) -> list[str]:
    """The reason why each sample of one prompt is left out; empty for kept ones."""
    # Of the usable ones: a better sample that was cut off must not exclude the best usable one.
    best = max((sample.score for sample in samples if not sample.problem), default=0.0)
    reasons: list[str] = []
    kept_texts: set[str] = set()
    for sample in samples:
        reason = sample.problem or selection.refusal(sample, best)
        # Copies before the limit, so that the record counts a copy as a copy even if the prompt has enough.
        if not reason and sample.text in kept_texts:
            reason = SAME_TEXT
        elif not reason and selection.most_per_prompt and len(kept_texts) >= selection.most_per_prompt:
            reason = ENOUGH
        if not reason:
            kept_texts.add(sample.text)
        reasons.append(reason)
    return reasons


@dataclass(frozen=True, kw_only=True)
class PairRule:
    """Rules by which samples become pairs. Both have ended, and the chosen one has the form of `SampleOrigin`."""

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


def make_pairs(prompts: Iterable[Sequence[Mapping[str, Any]]], rule: PairRule,
               origin: SampleOrigin) -> tuple[PreferencePair, ...]:
    """Makes pairs of the samples of each prompt, given as its lines of predictions, in the prompts' order."""
    return tuple(_pair(chosen, rejected, origin) for rows in prompts
                 for chosen, rejected in islice(_paired(rows, rule, origin.form), rule.most_per_prompt))


def _paired(rows: Sequence[Mapping[str, Any]], rule: PairRule, form: str) -> list[tuple[Candidate, Candidate]]:
    """All pairs (chosen, rejected) of one prompt, in the order in which the rule takes them."""
    distinct: dict[str, Candidate] = {}
    for sample in (sample_of(row, form) for row in rows):
        # A sample of another form was ended by the model, and a row can hold it: it can be the rejected one.
        if sample.problem in ("", OTHER_FORM):
            # The first of equal texts represents all of them: a pair of a text with itself teaches nothing.
            distinct.setdefault(sample.text, sample)
    ended = list(distinct.values())
    in_form = [sample for sample in ended if not sample.problem]
    if rule.rule == "right-wrong":
        right = [sample for sample in in_form if sample.is_right]
        wrong = [sample for sample in ended if not sample.is_right]
        return list(zip(right, wrong, strict=False))
    # Sorting keeps the sampling order among equals. As long as the scores differ, no text is on both sides.
    best_first = sorted(in_form, key=lambda sample: -sample.score)
    worst_first = sorted(ended, key=lambda sample: sample.score)
    return [(best, worst) for best, worst in zip(best_first, worst_first, strict=False) if best.score > worst.score]


def _pair(chosen: Candidate, rejected: Candidate, origin: SampleOrigin) -> PreferencePair:
    facts = {f"{side}_{key}": value for side, sample in (("chosen", chosen), ("rejected", rejected))
             for key, value in sample.facts.items()}
    return PreferencePair(id=f"{chosen.prompt_id}/{chosen.number}-{rejected.number}", prompt=chosen.prompt,
                          chosen=chosen.text, rejected=rejected.text, source=origin.source,
                          metadata={**facts, DRAWN_FROM: origin.drawn_from}, **chosen.labels)
