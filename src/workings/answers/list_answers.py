"""The entry of a list that its question asks for: "Tom 10, Ann 20", lines "- Ann: 20", rows of two columns.

An entry is a name and its number. The one is asked for whose name says clearly more of the question than the others.
"""

import re
from collections.abc import Sequence
from itertools import takewhile

from workings.answers.json_answers import named_numbers
from workings.answers.numbers import parse_number
from workings.answers.question import asks_about, how_much_asked
from workings.answers.question_words import telling_words
from workings.answers.sentences import corrects, is_conclusion, tidy

MAX_ENTRIES = 30
MAX_CHARACTERS = 120
"""Of an entry; a longer line is prose."""
# A name is a few words with a sign behind them, or words with capital letters.
_ENTRY = re.compile(r"[^\w$€£]*((?:[^\W\d_][^\s\d:=|]*[^\S\n]?){1,4}(?=[\s*]*[:=|])|(?:[A-Z][^\W\d_]*\s){1,3})"
                    r"[:=|\s*]*([-$€£]{0,2}\d[^→⇒]*?)[\s*|.]*")
_LIST_ITEM = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)]|[a-j]\))\s+(?=\S)")
_ASSIGNED = re.compile(r"([a-zA-Z])\s*=\s*[^=]+")
_LABEL = re.compile(r"(?:^|[,;]\s+)(?:[-*•]\s)?\**([A-Za-z][A-Za-z ]{1,30}):\**\s")
_BETWEEN = re.compile(r"[,;]\s+(?:and\s+)?|\s+and\s+")


def list_entry_for(lines: Sequence[str], question: str) -> str | None:
    """The number that the question asks for, of the entries with which a text ends; None where there are not two."""
    entries = [entry for line in takewhile(bool, map(_entries, reversed(lines[-MAX_ENTRIES:]))) for entry in line]
    entries = entries or named_numbers("".join(lines[-1:]))
    if not question or len(entries) < 2:
        return None
    of_whom = [number for name, number in entries if asks_about(name, question)]
    if len(of_whom) == 1:
        return of_whom[0]
    # The last one that is calculated, where it is asked about at all.
    if "=" in entries[0][1] and how_much_asked(entries[0][0], question) > 0:
        return entries[0][1]
    *_, second, best = sorted((how_much_asked(name, question), number) for name, number in entries)
    # A whole word ahead: with less, entries differ by chance.
    return best[1] if best[0] - max(second[0], 0) >= 1 else None


def labelled_for(lines: Sequence[str], question: str) -> str:
    """The value of the one label that a question asks for: "Center: (3, -1), radius: 5", or a line each; "" for none.

    >>> labelled_for(["Center: (3, -1), radius: 5"], "Find the center of the circle.")
    '(3, -1)'
    """
    _, *parts = _LABEL.split(", ".join(lines[-MAX_ENTRIES:])[-MAX_CHARACTERS:])
    labels = {name: value for name, value in zip(parts[::2], parts[1::2], strict=True) if value.strip(" *")}
    asked = [name for name in labels if set(telling_words(name)) <= set(telling_words(question))]
    return labels[asked[0]].strip(" *.") if len(labels) > 1 and len(asked) == 1 else ""


def _entries(line: str) -> list[tuple[str, str]]:
    """The names of a line with their numbers; empty where it says anything else."""
    found = []
    for part in _BETWEEN.split(line):
        entry = _ENTRY.fullmatch(part) if len(part) <= MAX_CHARACTERS else None
        if entry is None or parse_number(entry[2]) is None:
            return []
        found.append((entry[1], entry[2]))
    return found


def listed(lines: Sequence[str]) -> str:
    """The items of a list that a text is, or ends with behind a line with a colon; empty where there is none."""
    if len(lines) > 3 and _LIST_ITEM.match(lines[-2]) and not re.search(r"[\d:*]", lines[-1]) and not (
            _LIST_ITEM.match(lines[-1]) or is_conclusion(lines[-1]) or corrects(lines[-1])):
        lines = lines[:-1]  # a remark about all of them
    start = len(lines)
    while start and _LIST_ITEM.match(lines[start - 1]):
        start -= 1
    if len(lines) - start < 2 or (start and not lines[start - 1].rstrip(" *_").endswith(":")):
        return ""
    return ", ".join(tidy(_LIST_ITEM.sub("", line, count=1)) for line in lines[start:])


def assigned(lines: Sequence[str]) -> str:
    """Lines `x = 7` and `y = 3` at the end of a text as one answer; empty where there are not two, of other names."""
    equations: dict[str, str] = {}
    for line in reversed(lines):
        assigned = _ASSIGNED.fullmatch(tidy(line))
        if assigned is None or assigned[1] in equations:
            break
        equations[assigned[1]] = assigned[0]
    return ", ".join(reversed(equations.values())) if len(equations) > 1 else ""
