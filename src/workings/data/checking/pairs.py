"""`data check` of preference pairs: what their two completions are to each other, and to those of other pairs."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from workings.data.checking.findings import ENTIRE_FILE, TURN_MARKS, DataFinding, excerpt, shown
from workings.data.checking.overlap import question_key, words
from workings.data.importing.formats import VERDICT_FORMATS
from workings.data.importing.hints import looks_like
from workings.data.importing.sources import open_file
from workings.data.preferences import PreferencePair
from workings.errors import RequestError
from workings.record.number_text import percent

NEUTRAL_LENGTH_SHARES = (0.4, 0.6)
"""Shares of pairs with the longer completion chosen that say nothing about length."""
_CONFIDENCE = 0.95

Numbers = Sequence[tuple[int, PreferencePair]]
"""Pairs with their positions in the file."""


def holds_pairs(path: Path) -> bool:
    """Whether a file holds preference pairs and not traces: its first line says so.

    Raises `RequestError` if it cannot be read, or holds verdicts, which are not checked.
    """
    first = next(open_file(path).records(), None)
    value = getattr(first, "value", None)
    if isinstance(value, dict) and looks_like(value) in VERDICT_FORMATS:
        raise RequestError(f"{path} is a file of verdicts", "traces or preference pairs",
                           "workings plan RECIPE")
    return isinstance(value, dict) and {"chosen", "rejected"} <= value.keys()


def pair_findings(pairs: Numbers, name: str) -> Iterator[DataFinding]:
    """Findings about the pairs of a file of this name."""
    for position, pair in pairs:
        yield from (DataFinding(kind, position, pair.id, text) for kind, text in _alone(pair))
    yield from _about_two(pairs)
    yield from (DataFinding("length_bias", ENTIRE_FILE, name, text) for text in _length_bias(pairs))


def _alone(pair: PreferencePair) -> Iterator[tuple[str, str]]:
    """Findings about one pair that do not depend on the others."""
    chosen, rejected = _spaceless(pair.chosen), _spaceless(pair.rejected)
    if chosen == rejected:
        yield "equal_completions", excerpt(pair.chosen)
    elif chosen.startswith(rejected):
        yield "cut_off", f"rejected: {excerpt(pair.rejected)}"
    elif rejected.startswith(chosen):
        yield "cut_off", f"chosen: {excerpt(pair.chosen)}"
    # A question of choice holds both completions, and gives none away.
    if _within(pair.chosen, pair.prompt) and not _within(pair.rejected, pair.prompt):
        yield "answer_in_prompt", excerpt(pair.chosen)
    # Tags of reasoning belong to completions that reason; marks of turns belong to no text.
    if forged := [mark for text in (pair.prompt, pair.chosen, pair.rejected) for mark in TURN_MARKS.findall(text)]:
        yield "control_text", shown(forged)
    if not pair.licence:
        yield "no_licence", pair.source or "no source either"


def _spaceless(text: str) -> str:
    return "".join(text.split())


def _within(part: str, text: str) -> bool:
    """Whether another text holds the words of a text, side by side."""
    joined = " ".join(words(part))
    return bool(joined) and f" {joined} " in f" {' '.join(words(text))} "


def _about_two(pairs: Numbers) -> Iterator[DataFinding]:
    """Pairs that repeat an earlier one, and pairs of one question by which A is better than B and B better than A.

    A completion that is chosen in one pair and rejected in another one is no contradiction by itself: a ranking has
    such completions.
    """
    verdicts = [(question_key(pair), _spaceless(pair.chosen), _spaceless(pair.rejected)) for _, pair in pairs]
    known, seen = set(verdicts), dict[tuple[object, ...], str]()
    for (position, pair), (question, better, worse) in zip(pairs, verdicts, strict=True):
        earlier = seen.setdefault((question, pair.chosen, pair.rejected), pair.id)
        if earlier != pair.id:
            yield DataFinding("repeated_pair", position, pair.id, f"like {earlier}: {excerpt(pair.prompt)}")
        if better != worse and (question, worse, better) in known:
            yield DataFinding("opposite_verdicts", position, pair.id, f"{excerpt(pair.prompt)}: "
                              f"{excerpt(pair.chosen, 40)} before {excerpt(pair.rejected, 40)}")


def _length_bias(pairs: Numbers) -> Iterator[str]:
    from scipy.stats import binomtest

    # Pairs of equal length say nothing of a taste for long texts.
    differing = [pair for _, pair in pairs if len(pair.chosen) != len(pair.rejected)]
    if not differing:
        return
    longer = sum(len(pair.chosen) > len(pair.rejected) for pair in differing)
    ends = binomtest(longer, len(differing)).proportion_ci(_CONFIDENCE, method="wilson")
    if ends.high < NEUTRAL_LENGTH_SHARES[0] or ends.low > NEUTRAL_LENGTH_SHARES[1]:
        yield (f"the chosen completion has more characters in {longer} of {len(differing)} pairs whose lengths differ: "
               f"{percent(longer / len(differing), 0)}, {percent(_CONFIDENCE, 0)} interval {percent(ends.low, 0)} to "
               f"{percent(ends.high, 0)}; a model can learn just the length")
