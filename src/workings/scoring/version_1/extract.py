"""The rules of extraction of version 1, for records that were made with them. They never change."""

import re
from collections.abc import Callable, Sequence
from typing import Literal

from workings.answers.extraction import NO_RULE, Extraction
from workings.scoring.version_1.numbers import MAX_CHARACTERS, parse_number

Kind = Literal["number", "text"]
Rule = Callable[[str, Kind], str | None]

# Characters. A longer text is an explanation that holds the answer, not the answer.
MAX_AFTER_THINK = 200
MAX_WHOLE = 100

def answer_tag(text: str, kind: Kind) -> str | None:
    """Text of the last closed ``<answer>…</answer>``."""
    return _between(text, "<answer>", "</answer>")


def hashes(text: str, kind: Kind) -> str | None:
    """Rest of the line after the last ``####`` (GSM8K)."""
    at = text.rfind("####")
    return text[at + 4:].split("\n", 1)[0] if at >= 0 else None


def boxed(text: str, kind: Kind) -> str | None:
    r"""Content of the last ``\boxed{…}``, braces matched."""
    at = text.rfind("\\boxed")
    if at < 0:
        return None
    rest = text[at + len("\\boxed"):].lstrip()
    if not rest.startswith("{"):
        return rest.split(maxsplit=1)[0].rstrip("$.") if rest else None
    # Braces are counted, because a fraction inside of the box has braces of its own and a pattern cannot pair them.
    depth = 0
    for index, character in enumerate(rest):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return rest[1:index]
    return None


_PHRASE = re.compile(r"\banswer\b(?:\s+is)?\s*[:=]?\s*\**\s*", re.IGNORECASE)
_PHRASE_MARK = re.compile(r"\bis\b|[:=]", re.IGNORECASE)


def answer_phrase(text: str, kind: Kind) -> str | None:
    """What follows the last "Answer:" or "the answer is", to the end of its line or sentence."""
    last = None
    for match in _PHRASE.finditer(text):
        # The bare word, as in "answer these", announces nothing.
        if _PHRASE_MARK.search(match.group()):
            last = match
    if last is None:
        return None
    line = text[last.end():].split("\n", 1)[0]
    # A sentence ends at a period before a space; a period inside 3.14 is not one.
    return re.split(r"[.!?]\s", line, maxsplit=1)[0].rstrip(" .!?")


def after_think(text: str, kind: Kind) -> str | None:
    """A short text after the last ``</think>`` or ``</reasoning>``; for numbers, only if it is one."""
    at = max(text.rfind(tag) + len(tag) if tag in text else -1 for tag in ("</think>", "</reasoning>"))
    rest = text[at:].strip() if at >= 0 else ""
    if not rest or len(rest) > MAX_AFTER_THINK or (kind == "number" and parse_number(rest) is None):
        return None
    return rest


# A minus sign counts only where no operand stands right before it: in `12-5` it is an operation.
_NUMBER = re.compile(
    r"(?:(?<![\w).])[-−])?(?:[$€£¥₹]\s?)?(?:(?<![\w).])[-−])?"
    r"(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)(?:\s?/\s?\d+(?![\d.]))?(?:\s?%)?")


def last_number(text: str, kind: Kind) -> str | None:
    """The last number anywhere."""
    last = None
    for match in _NUMBER.finditer(text):
        last = match
    return last.group() if last else None


def only_number(text: str) -> str:
    """The number of a short text that holds exactly one ("She has 42 of them."), or ""."""
    numbers = _NUMBER.findall(text) if len(text) <= MAX_CHARACTERS else []
    return str(numbers[0]) if len(numbers) == 1 else ""


def whole(text: str, kind: Kind) -> str | None:
    """The completion itself where it is one short line."""
    stripped = text.strip()
    return stripped if stripped and len(stripped) <= MAX_WHOLE and "\n" not in stripped else None


RULES: dict[str, Rule] = {rule.__name__: rule for rule in (
    answer_tag, hashes, boxed, answer_phrase, after_think, last_number, whole)}
DEFAULT_RULES: dict[Kind, tuple[str, ...]] = {
    "number": ("answer_tag", "hashes", "boxed", "answer_phrase", "after_think", "last_number"),
    "text": ("answer_tag", "hashes", "boxed", "answer_phrase", "after_think", "whole"),
}


def extract(text: str, kind: Kind, rules: Sequence[str] = ()) -> Extraction:
    """The first rule (in the order given; empty: the default order for this kind) that finds a non-empty answer."""
    for name in rules or DEFAULT_RULES[kind]:
        answer = RULES[name](text, kind)
        if answer is not None and answer.strip():
            return Extraction(answer.strip(), name)
    return Extraction("", NO_RULE)


def _between(text: str, opening: str, closing: str) -> str | None:
    # The closing tag is looked for first, so a tag that is open at the end of a cut text is no answer.
    end = text.rfind(closing)
    start = text.rfind(opening, 0, end) if end >= 0 else -1
    return text[start + len(opening):end] if start >= 0 else None
