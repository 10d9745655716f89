"""`workings data check` of preference pairs: each pair by itself, pairs of one question, and all pairs."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from workings.data.checking.findings import ENTIRE_FILE, TURN_MARKS, DataFinding, excerpt, shown
from workings.data.checking.overlap import question_key, words
from workings.data.importing.formats import VERDICT_FORMATS
from workings.data.importing.hints import looks_like
from workings.data.importing.sources import SourceRecord, open_file
from workings.data.preferences import PreferencePair
from workings.errors import RequestError
from workings.record.number_text import percent

NEUTRAL_LENGTH_SHARES = (0.4, 0.6)
"""Shares of pairs with the longer completion chosen that say nothing about length."""
_CONFIDENCE = 0.95

Positioned = Sequence[tuple[int, PreferencePair]]
"""Pairs with their positions in the file."""


def holds_pairs(path: Path) -> bool:
    """Whether a file's first line is a preference pair. Raises `RequestError` for unreadable files and verdicts."""
    first = next(open_file(path).records(), None)
    if not isinstance(first, SourceRecord) or not isinstance(first.value, dict):
        return False
    if looks_like(first.value) in VERDICT_FORMATS:
        raise RequestError(f"{path} is a file of verdicts", "traces or preference pairs", "workings plan RECIPE")
    return {"chosen", "rejected"} <= first.value.keys()


def pair_findings(pairs: Positioned, name: str) -> Iterator[DataFinding]:
    """Findings about the pairs of a file of this name."""
    for position, pair in pairs:
        yield from (DataFinding(kind, position, pair.id, text) for kind, text in _about_pair(pair))
    yield from _against_others(pairs)
    yield from (DataFinding("length_bias", ENTIRE_FILE, name, text) for text in _length_bias(pairs))


def _about_pair(pair: PreferencePair) -> Iterator[tuple[str, str]]:
    """Kind and text of each finding about one pair that does not depend on the others."""
    chosen, rejected = _without_spaces(pair.chosen), _without_spaces(pair.rejected)
    if chosen == rejected:
        yield "equal_completions", excerpt(pair.chosen)
    elif chosen.startswith(rejected):
        yield "cut_off", f"rejected: {excerpt(pair.rejected)}"
    elif rejected.startswith(chosen):
        yield "cut_off", f"chosen: {excerpt(pair.chosen)}"
    # A question that lists choices holds both completions.
    if _within(pair.chosen, pair.prompt) and not _within(pair.rejected, pair.prompt):
        yield "answer_in_prompt", excerpt(pair.chosen)
    # Completions may have tags of reasoning; no text may have marks of turns.
    if forged := [mark for text in (pair.prompt, pair.chosen, pair.rejected) for mark in TURN_MARKS.findall(text)]:
        yield "control_text", shown(forged)
    if not pair.licence:
        yield "no_licence", pair.source or "no source either"


def _without_spaces(text: str) -> str:
    return "".join(text.split())


def _within(part: str, text: str) -> bool:
    """Whether a text holds the words of a part, one after the other."""
    joined = " ".join(words(part))
    return bool(joined) and f" {joined} " in f" {' '.join(words(text))} "


def _against_others(pairs: Positioned) -> Iterator[DataFinding]:
    """Pairs that repeat an earlier one, and pairs of one question that prefer A to B and B to A.

    A completion that is chosen in one pair and rejected in another one is no contradiction: a ranking has such ones.
    """
    preferences = [(question_key(pair), _without_spaces(pair.chosen), _without_spaces(pair.rejected))
                   for _, pair in pairs]
    known = set(preferences)
    id_of_first: dict[tuple[object, ...], str] = {}
    for (position, pair), (question, better, worse) in zip(pairs, preferences, strict=True):
        first = id_of_first.setdefault((question, pair.chosen, pair.rejected), pair.id)
        if first != pair.id:
            yield DataFinding("repeated_pair", position, pair.id, f"like {first}: {excerpt(pair.prompt)}")
        if better != worse and (question, worse, better) in known:
            yield DataFinding("opposite_verdicts", position, pair.id, f"{excerpt(pair.prompt)}: "
                              f"{excerpt(pair.chosen, 40)} before {excerpt(pair.rejected, 40)}")


def _length_bias(pairs: Positioned) -> Iterator[str]:
    """A sentence if the longer completions are chosen too often, or too rarely, to say nothing about length."""
    from scipy.stats import binomtest

    differing = [pair for _, pair in pairs if len(pair.chosen) != len(pair.rejected)]
    if not differing:
        return
    longer = sum(len(pair.chosen) > len(pair.rejected) for pair in differing)
    interval = binomtest(longer, len(differing)).proportion_ci(_CONFIDENCE, method="wilson")
    lowest, highest = NEUTRAL_LENGTH_SHARES
    if interval.high < lowest or interval.low > highest:
        share, confidence = percent(longer / len(differing), 0), percent(_CONFIDENCE, 0)
        yield (f"the chosen completion has more characters in {longer} of {len(differing)} pairs whose lengths differ: "
               f"{share}, {confidence} interval {percent(interval.low, 0)} to {percent(interval.high, 0)}; a model can "
               "learn just the length")
