r"""Finds the answer in a completion by five rules, and names the rule that found it.

    answer_tag        <answer>12</answer>
    hashes            #### 12
    boxed             \boxed{12}
    answer_phrase     The answer is 12.
    final_sentence    So she has 12 apples.

The rules are tried in this order; of several marks of a rule the last one counts. Thinking does not count
(`workings.answers.thinking`). A mark that says no single answer ("the answer is A or B", "it depends") ends the search
without an answer. Rules look at the kind of the expected answer (`answer_kind`) and at the options that the question
lists, never at the expected answer itself.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from workings.answers.choices import TRUTHS, choice_in, first_truth, option_letter, truth_in
from workings.answers.final_number import final_number, sentence_number
from workings.answers.latex import plain
from workings.answers.numbers import numbers_in, parse_number, parse_words
from workings.answers.sentences import sentences, tidy
from workings.answers.thinking import AfterThinking, text_after_thinking
from workings.errors import RequestError

Kind = Literal["number", "choice", "yes_no", "name", "text"]
"""What is expected: a number, the letter of a choice, yes or no, a name or phrase, or other text (formula, list)."""

NO_RULE = "none"
MAX_NAME = 120
"""Characters of an expected answer that may be a name or phrase."""
_LETTER = re.compile(r"\s*\(?[A-Ja-j]\)?\.?\s*")
_YEAR = re.compile(r"\W*(?:in )?[12]\d{3}\W*")
_ASKS_WHEN = re.compile(r"\bwhen\b|\b(?:what|which) (?:\w+ )?year|\bgive (?:a|the) year", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]{3,}|[A-Z]{2}")
_OF_FORMULA = re.compile(r"[\\^_=<>≤≥+*/{}\[\]√π∞|]")


@dataclass(frozen=True, slots=True)
class Extraction:
    """The answer found in a completion (maybe empty) and the rule that found it."""

    text: str
    rule: str


def answer_kind(expected: str, question: str = "", aliases: Sequence[str] = ()) -> Kind:
    """What kind of answer is expected. The text of an option that the question lists is a choice.

    A year is a name if the question asks when, and a number is a name if one of its aliases is.

    >>> answer_kind("1/2"), answer_kind("(B)"), answer_kind("No"), answer_kind("Isaac Newton"), answer_kind("x + 1")
    ('number', 'choice', 'yes_no', 'name', 'text')
    """
    if _LETTER.fullmatch(plain(expected)) or option_letter(expected, question):
        return "choice"
    if _YEAR.fullmatch(expected) and _ASKS_WHEN.search(question):
        return "name"
    if parse_number(expected) is not None or parse_words(expected) is not None:
        return "name" if any(answer_kind(alias) == "name" for alias in aliases) else "number"
    if expected.strip(" .").casefold() in TRUTHS:
        return "yes_no"
    is_name = _WORD.search(expected) and len(expected) <= MAX_NAME and not _OF_FORMULA.search(expected)
    return "name" if is_name else "text"


MAX_BOXES = 50
"""Maximum number of boxes to read, from the end."""
_INNER = r"[^{}]*+"
for _ in range(5):  # a fraction inside of the box has its own braces
    _INNER = rf"(?:[^{{}}]++|\{{{_INNER}\}})*+"
_BOX = re.compile(rf"\\(?:boxed|fbox|framebox)(?![A-Za-z])\s*(?:\{{(?=\s*[^\s}}])({_INNER})\}}|([^\s{{]{{1,100}}))")
# "x = \boxed{2} or x = \boxed{3}": both are the answer.
_SIDE_BY_SIDE = re.compile(r"[\s$\\()]*(?:,|and|or|;)[\s$\\()]*(?:and|or)?[\s$\\()]*(?:[a-zA-Z]\s*=\s*)?")
MAX_BETWEEN = 60
"""Characters between two boxes side by side."""


def last_boxes(text: str) -> str | None:
    """Content of the last closed box of a text; of all boxes if several are side by side; None without a box."""
    start, contents = len(text), list[str]()
    for box in reversed([*_BOX.finditer(text)][-MAX_BOXES:]):
        # Cut, because the expression could take long on a long text; one that was cut matches nothing.
        if contents and not _SIDE_BY_SIDE.fullmatch(text[box.end():start][:MAX_BETWEEN]):
            break
        content = box[1] or box[2].strip("$.")
        # "-\boxed{256}"; after anything else the sign is a difference.
        is_negative = not contents and re.search(r"[=$(]\s*-\s*$", text[:box.start()][-9:])
        contents.insert(0, f"-{content}" if is_negative else last_boxes(content) or content)
        start = box.start()
    return ", ".join(contents) or None


EXTRACTION_VERSION = 5
"""Increased with every change of a rule; scorecards of different versions are not comparable."""

Rule = Callable[[AfterThinking, Kind], str | None]
"""Finds an answer: "" if the rule's mark has none, None without such a mark."""

MAX_LINE = 300
"""Characters of a last line that may be the answer as a whole."""
MAX_SEGMENT = 1_200
"""Characters to read after "the answer is"."""
MAX_MARKS = 50
"""Maximum number of marks of a kind to read, from the end."""
FINAL_SENTENCES = 4
"""Sentences to search for a name at the end of a text, plus the first one."""

_HEADING = re.compile(
    r"[\s*_#]*(?:step|part|case|phase|option|method|approach|section|question|problem|example|task)\s*[\dA-Z]\b"
    r"|[\s*_]*\d+[.):]\s|[^\d]*:?$", re.IGNORECASE)
_PHRASE = re.compile(
    r"(?<![\w'’-])(?:answer|(?:correct|right|best|final) (?:option|choice|result)"
    r"|antwort|respuesta|resposta|risposta|réponse)[\"'*_]{0,4}(?:\s*\([^()\n]{1,60}\))?[*_]{0,4}"
    r"(?:\s+(?:to|for|of|in) (?:the|this|your|part|question)\b[^.:\n]{0,60}?)?"
    r"[\s*_\"']{0,4}(?:,?\s*(?:then|therefore|thus|hence|here)\s*,?\s*)?"
    r"(?::|=|(?:is|are|was|would be|should be|must be|will be|ist|est|es|è|é)\b"
    r"(?:\s+(?:therefore|thus|then|simply|that))*\s*:?)[\s*_:]{0,8}|答案\s*(?:是|为|為|:|：)\s*"
    r"|(?:^|\n)A:[ \t]*(?=\S)|(?:^|\n)[\s#*_>]{0,8}(?:the )?(?:final )?answer[\s*_:#]{0,6}\n+", re.IGNORECASE)
_NO_ANSWER = re.compile(
    r"(?:(?:above|below|as follows)(?=\W*$|[.,;:])|followed by|explained|correct|right|helpful|clear|obvious"
    r"|wrong|incorrect|given|found|shown|reasonable|consistent|verified|confirmed|in (?:the|a))\b", re.IGNORECASE)
# "The answer is ... C", "The answer is _____."
_BLANK = re.compile(r"(?:[\s_…]|\.(?!\d))*")
_GOES_ON = re.compile(
    r"\s?[-+*/×÷^=]{1,2}\s?[\d(a-z$]|\s(?:or|to|and|plus|minus|times|divided|more|less|of)\b|\s?[-–—]\s?\d|,\s\d")
# LaTeX that was escaped twice, as in a file that quotes another: "\\frac".
_DOUBLED = re.compile(
    r"(?<!\\)\\(?=\\(?:boxed|[dt]?frac|sqrt|text|pi|times|cdot|infty|left|right|log|sin|cos|theta)(?![a-z]))")
_FORMULA = re.compile(r"(?<!\\)\$([^$]+)\$|\\\((.+?)\\\)")


def answer_tag(text: AfterThinking, kind: Kind) -> str | None:
    """Text of the last ``<answer>…</answer>``; the end tag may be missing unless the completion was cut off."""
    said, end = text.text, text.text.rfind("</answer>")
    if said.rfind("<answer>") > end and not text.truncated:
        end = len(said)
    start = said.rfind("<answer>", 0, end) if end >= 0 else -1
    if start < 0:
        return None
    content = said[start + len("<answer>"):end]
    if not content.strip():
        return None
    return _of_kind(content, kind, text.question) or tidy(content)


def hashes(text: AfterThinking, kind: Kind) -> str | None:
    """Rest of the line after the last ``####`` (GSM8K) that is no heading."""
    for at, rest in _hash_lines(text.text):
        ends_text = not text.text[at + 4 + len(rest):].strip()
        # A number at the end of a text that was cut off may be the beginning of another one.
        is_cut = text.truncated and ends_text
        is_heading = _HEADING.match(rest) and parse_number(tidy(rest)) is None and (kind == "number" or not ends_text)
        if not rest.strip(" #*") or is_cut or is_heading:
            continue
        return _of_kind(rest, kind, text.question) or tidy(rest)
    return None


def _hash_lines(text: str) -> Iterator[tuple[int, str]]:
    """Each ``####`` from the last one: its index in the text, and the rest of its line."""
    end = len(text)
    # From the end and bounded: repetitive completions hold thousands of marks.
    for _ in range(MAX_MARKS):
        at = text.rfind("####", 0, end)
        if at < 0:
            return
        yield at, text[at + 4:].partition("\n")[0].lstrip("#")
        end = at


def boxed(text: AfterThinking, kind: Kind) -> str | None:
    r"""Content of the last closed ``\boxed{…}`` or ``\fbox{…}``; for several side by side, all contents."""
    content = last_boxes(text.text)
    if content is None:
        return None
    # A box is meant exactly.
    return _of_kind(content, kind, text.question) if kind in ("choice", "yes_no") else content.strip()


def answer_phrase(text: AfterThinking, kind: Kind) -> str | None:
    """What follows the last "the answer is", "Answer:", "A:" at the beginning of a line, or heading "Final answer"."""
    for match in reversed([*_PHRASE.finditer(text.text)]):
        begin = _BLANK.match(text.text, match.end()).end()  # type: ignore[union-attr]
        segment = text.text[begin:begin + MAX_SEGMENT].partition("\n")[0].strip()
        if not segment or _NO_ANSWER.match(segment):
            continue
        is_cut = text.truncated and text.text.rstrip().endswith(segment) and len(sentences(segment)) < 2
        return "" if is_cut else _of_kind(segment, kind, text.question)
    return None


def final_sentence(text: AfterThinking, kind: Kind) -> str | None:
    """What the final sentence says: its number, choice, or yes or no; for other answers the last line.

    Yes or no and the letter of a choice may open the text instead; a yes or no at its end must not be another one.
    """
    said = sentences(text.text)
    whole = said[:-1] if text.truncated else said
    if not whole:
        return None
    if kind == "number":
        return final_number("\n".join(whole))
    if kind in ("choice", "yes_no"):
        first, last = _opening(whole[0], kind, text.question), _last_said(whole, kind, text.question)
        contradicts = kind == "yes_no" and first and last and first != last
        return None if contradicts else first or last
    if kind == "name":
        return tidy(" ".join(whole if len(whole) <= FINAL_SENTENCES + 1 else [whole[0], *whole[-FINAL_SENTENCES:]]))
    last_sentence = whole[-1]
    formulas = [*_FORMULA.finditer(last_sentence)]
    if len(formulas) == 1:
        return formulas[0][1] or formulas[0][2]
    if len(last_sentence) > MAX_LINE:
        return None
    # What follows the last "is", or the whole sentence.
    return tidy(re.split(r"\b(?:is|are|equals)\s", last_sentence)[-1])


def _opening(sentence: str, kind: Kind, question: str) -> str | None:
    if kind == "yes_no":
        return first_truth(sentence)
    opens = re.match(r"\W{0,4}(?:[(\[][A-J][)\]]|[A-J](?:[).:]|\W*$))", sentence)
    return choice_in(sentence, question) if opens else None


def _last_said(whole: list[str], kind: Kind, question: str) -> str | None:
    """The choice that the last statement says, or the last yes or no of the final statements."""
    statements = [sentence for sentence in whole[-FINAL_SENTENCES:] if not sentence.endswith("?")]
    if kind == "choice":
        return choice_in(statements[-1], question) if statements else None
    return next(filter(None, map(truth_in, reversed(statements))), None)


RULES: dict[str, Rule] = {rule.__name__: rule for rule in (answer_tag, hashes, boxed, answer_phrase, final_sentence)}
"""By name, in their order."""


def check_rules(names: Sequence[str]) -> None:
    """Raise `RequestError` for a rule that does not exist."""
    unknown = [name for name in names if name not in RULES]
    if unknown:
        raise RequestError(f"there is no extraction rule {' or '.join(unknown)}", f"some of {', '.join(RULES)}")


def extract(text: str, kind: Kind, rules: Sequence[str] = (), *, truncated: bool = False, question: str = ""
            ) -> Extraction:
    """The answer of the expected kind by the first of the ``rules`` whose mark the text has; without rules by any.

    ``truncated``: the completion was cut off by the limit on new tokens, so that its very end is no answer.
    ``question``: for its options.
    """
    text = _DOUBLED.sub("", text)
    spoken = text_after_thinking(text, truncated=truncated, question=question)
    for name in rules or RULES:
        answer = RULES[name](spoken, kind)
        if answer is not None:
            return Extraction(answer.strip(), name) if answer.strip() else Extraction("", NO_RULE)
    return Extraction("", NO_RULE)


def _of_kind(segment: str, kind: Kind, question: str) -> str:
    """The answer of this kind in the text that a mark names, such as "**12** apples" after "####"; "" without one."""
    if "\\box" in segment and (content := last_boxes(segment)) is not None:
        segment = content
    if kind == "number":
        return _number_of(segment)
    first_sentence = next(iter(sentences(segment)), "")
    if not first_sentence:
        return ""
    if kind == "choice":
        return choice_in(first_sentence, question) or ""
    if kind == "yes_no":
        return truth_in(first_sentence) or ""
    return tidy(segment if "\\begin" in segment else first_sentence)


def _number_of(segment: str) -> str:
    """The number at the beginning of a marked text, else the one of its first sentence."""
    answer, first_sentence = tidy(segment), next(iter(sentences(segment)), "")
    if parse_number(answer) is not None or parse_words(answer) is not None:
        return answer
    if not first_sentence or re.match(r"\W*not\b", first_sentence, re.IGNORECASE):
        return ""
    sentence = plain(first_sentence)
    first = next(iter(numbers_in(sentence)), None)
    begins_sentence = first is not None and first.number is not None and first.start == 0
    if first and begins_sentence and not _GOES_ON.match(sentence, first.end):
        return first.text
    return sentence_number(first_sentence) or ""
