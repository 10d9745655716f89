"""Selects samples for training: a function of a unit's predictions and of a few rules."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from workings.data.checking.overlap import passages, similarity, words
from workings.data.traces import STYLES, Trace
from workings.errors import RequestError
from workings.record.digest import bytes_digest
from workings.record.manifest import DRAWN_FROM
from workings.samples.candidates import Candidate, SampleOrigin, sample_of
from workings.scoring.items import UNSPECIFIED, Item

KEEP = ("correct", "best", "all")
PREFER = ("first", "shortest", "longest")
BALANCE = ("none", "difficulty", "solved")
WRONG, NOT_THE_BEST, SAME_TEXT, NEAR_DUPLICATE = "wrong", "not the best", "same text", "near duplicate"
WRONG_STEP = "wrong step"
ENOUGH, CLASS_FULL = "enough of its prompt", "enough of its class"
"""Reasons why a usable sample is left out; `candidates` has those of unusable ones."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Rules by which samples are kept."""

    keep: str = "correct"
    """`correct`: correct answers; `best`: the highest score of each prompt, if above 0; `all`."""
    valid_steps: bool = False
    """Whether a sample with a wrong equation is left out, regardless of its answer."""
    most_per_prompt: int = 0
    """Maximum number of kept samples per prompt; 0: all."""
    prefer: str = "first"
    """Which samples of a prompt are preferred: the `first`, the `shortest` or the `longest` in tokens."""
    near_duplicates: float = 1.0
    """A sample more similar than this to a kept one of its prompt is left out; 1: only equal texts are left out."""
    balance: str = "none"
    """Whether each class has the same number of traces: `difficulty` of the items, or `solved`, by the share of right
    samples in thirds (hard, medium, easy)."""

    def __post_init__(self) -> None:
        for name, known in (("keep", KEEP), ("prefer", PREFER), ("balance", BALANCE)):
            if getattr(self, name) not in known:
                raise RequestError(f"{name}: {getattr(self, name)}", f"one of {', '.join(known)}")
        if self.most_per_prompt < 0:
            raise RequestError(f"most_per_prompt: {self.most_per_prompt}", "at least 1, or 0 for all")
        if not 0 <= self.near_duplicates <= 1:
            raise RequestError(f"near_duplicates: {self.near_duplicates:g}", "a similarity from 0 to 1")

    def to_json(self) -> dict[str, Any]:
        """JSON values for the record."""
        return asdict(self)

    def check(self, items: Iterable[Item], form: str) -> None:
        """Raises `RequestError` if these rules cannot be applied; called before sampling."""
        if form not in STYLES:
            raise RequestError(f"samples in the form {form}",
                               f"one of {', '.join(STYLES)}: kept samples are traces, split into steps and answer",
                               f"--form {STYLES[0]}")
        if self.balance == "difficulty":
            for item in items:
                _difficulty(item.id, item.difficulty)


RIGHT_SAMPLES = Selection()


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A sample that was not kept."""

    prompt_id: str
    number: int
    reason: str


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
    classes: Mapping[str, Mapping[str, int]]
    """`found` and `kept` by class, if classes are balanced."""

    def to_json(self) -> dict[str, Any]:
        """JSON values for the record."""
        return {**asdict(self), "left_out": dict(sorted(self.left_out.items())),
                "classes": dict(sorted(self.classes.items())) or {"absent": "not balanced"}}


@dataclass(frozen=True, kw_only=True)
class Selected:
    """Kept traces, and left-out samples with their reasons."""

    traces: tuple[Trace, ...]
    """Kept samples in the order of prompts and samples."""
    left_out: tuple[LeftOut, ...]
    counts: Counts


def select(prompts: Iterable[Sequence[Mapping[str, Any]]], selection: Selection, origin: SampleOrigin) -> Selected:
    """Selects samples.

    Args:
        prompts: lines of predictions, the samples of one prompt after the other.
        selection: the rules.
        origin: form and source of the samples.

    Raises:
        RequestError: balanced by difficulty, and an item names none.
    """
    kept_samples: list[tuple[Candidate, str]] = []
    left_out: list[LeftOut] = []
    solved: Counter[str] = Counter()
    for rows in prompts:
        samples = [sample_of(row, origin.form) for row in rows]
        # Over all samples, also unusable ones: these counts are about the prompt.
        right = sum(sample.is_right for sample in samples)
        solved["never" if not right else "always" if right == len(samples) else "sometimes"] += 1
        kind = _class_of(rows[0], right / len(samples), selection.balance)
        reasons = _reasons(samples, selection)
        kept_samples += [(sample, kind) for sample, reason in zip(samples, reasons, strict=True) if not reason]
        left_out += [_left_out(sample, reason) for sample, reason in zip(samples, reasons, strict=True) if reason]
    kinds = Counter(kind for _, kind in kept_samples)
    if selection.balance != "none":
        kept_samples, left_out_by_balance = _balanced(kept_samples, kinds)
        left_out += left_out_by_balance
    kept_kinds = Counter(kind for _, kind in kept_samples)
    counts = Counts(
        prompts=solved.total(), **{name: solved[name] for name in ("never", "sometimes", "always")},
        with_kept=len({sample.prompt_id for sample, _ in kept_samples}),
        samples=len(kept_samples) + len(left_out), kept=len(kept_samples),
        left_out=Counter(sample.reason for sample in left_out),
        classes={kind: {"found": kinds[kind], "kept": kept_kinds[kind]} for kind in kinds if kind})
    return Selected(traces=tuple(trace_of(sample, origin) for sample, _ in kept_samples), left_out=tuple(left_out),
                    counts=counts)


def trace_of(sample: Candidate, origin: SampleOrigin) -> Trace:
    """The trace whose completion is exactly the sample's text."""
    return Trace(id=f"{sample.prompt_id}/{sample.number}", prompt=sample.prompt, steps=sample.steps,
                 answer=sample.answer, source=origin.source,
                 metadata={**sample.facts, DRAWN_FROM: origin.drawn_from}, **sample.labels)


def _reasons(samples: Sequence[Candidate], selection: Selection) -> list[str]:
    """The reason why each sample of one prompt is left out; empty for kept ones."""
    reasons = [sample.problem for sample in samples]
    usable = [index for index, reason in enumerate(reasons) if not reason]
    # Among usable ones: a better sample that was cut off must not exclude the best usable one.
    best = max((samples[index].score for index in usable), default=0.0)
    for index in usable:
        score = samples[index].score
        if selection.keep == "correct" and not samples[index].is_right:
            reasons[index] = WRONG
        elif selection.keep == "best" and (score < best or score <= 0):
            reasons[index] = NOT_THE_BEST
        elif selection.valid_steps and samples[index].has_wrong_step:
            reasons[index] = WRONG_STEP
    sign = {"first": 0, "shortest": 1, "longest": -1}[selection.prefer]
    kept_samples: list[Candidate] = []
    # Sorting keeps the sampling order among equals.
    for index in sorted((index for index in usable if not reasons[index]),
                        key=lambda index: sign * samples[index].tokens):
        sample = samples[index]
        # Copies before the limit, so that the record counts a copy as a copy even if the prompt has enough. Quadratic
        # in the kept samples of one prompt; samples of two prompts are never compared.
        if any(sample.text == other.text for other in kept_samples):
            reasons[index] = SAME_TEXT
        # No similarity is above 1, so none is computed then.
        elif selection.near_duplicates < 1 and any(
                similarity(_passages(sample.content), _passages(other.content)) > selection.near_duplicates
                for other in kept_samples):
            reasons[index] = NEAR_DUPLICATE
        elif selection.most_per_prompt and len(kept_samples) >= selection.most_per_prompt:
            reasons[index] = ENOUGH
        else:
            kept_samples.append(sample)
    return reasons


def _balanced(kept: Sequence[tuple[Candidate, str]],
              counts: Mapping[str, int]) -> tuple[list[tuple[Candidate, str]], list[LeftOut]]:
    """Keeps the size of the smallest class from each class, chosen by the digests of ids."""
    smallest_class = min(counts.values(), default=0)
    # As good as a random choice, and needs no seed: a verifier with the predictions makes the same choice.
    by_digest = sorted(kept, key=lambda pair: bytes_digest(f"{pair[0].prompt_id}/{pair[0].number}".encode()))
    count_of_kind: Counter[str] = Counter()
    full = set()
    for sample, kind in by_digest:
        count_of_kind[kind] += 1
        if count_of_kind[kind] > smallest_class:
            full.add((sample.prompt_id, sample.number))
    is_out = [(sample.prompt_id, sample.number) in full for sample, _ in kept]
    return ([pair for pair, out in zip(kept, is_out, strict=True) if not out],
            [_left_out(pair[0], CLASS_FULL) for pair, out in zip(kept, is_out, strict=True) if out])


def _class_of(row: Mapping[str, Any], share: float, balance: str) -> str:
    if balance == "difficulty":
        return _difficulty(str(row["id"]), str(row["difficulty"]))
    if balance == "solved":
        return "hard" if share < 1 / 3 else "medium" if share < 2 / 3 else "easy"
    return ""


def _difficulty(name: str, difficulty: str) -> str:
    if difficulty in ("", UNSPECIFIED):
        raise RequestError(f"balance: difficulty, and item {name} names none", "items that all have a `difficulty`",
                           "--balance solved")
    return difficulty


def _left_out(sample: Candidate, reason: str) -> LeftOut:
    return LeftOut(prompt_id=sample.prompt_id, number=sample.number, reason=reason)


# A text is compared with every kept one of its prompt, and then never again. Case, white space and punctuation do not
# count; numbers do.
@lru_cache(maxsize=1024)
def _passages(text: str) -> frozenset[tuple[str, ...]]:
    return passages(words(text))
