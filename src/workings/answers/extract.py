r"""Finding the answer in a completion: ordered named rules, and the name of the rule that hit is kept.

Every rule looks only at what is said and not at what is thought (`workings.answers.thinking`), and is linear in the
length of the text. The last match counts, because a model that corrects itself does so later. Rules look at the kind of
the expected answer (`answer_kind`), never at the answer itself.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from workings.answers.about_asked import value_for_asked, without_which
from workings.answers.alternatives import alternative_said, is_it_true
from workings.answers.boxes import last_boxes
from workings.answers.choices import TRUTHS, choice_in, stated_in, truth_in
from workings.answers.extraction import NO_RULE, Extraction, Kind
from workings.answers.final_number import final_number, sentence_number
from workings.answers.json_answers import json_answer
from workings.answers.latex import plain, whole_fractions
from workings.answers.list_answers import assigned, labelled_for, list_entry_for, listed
from workings.answers.main_clause import last_clause
from workings.answers.name_answers import answering_sentence
from workings.answers.numbers import full_hours_asked, in_unit_asked, parse_number, parse_words, with_decimal_points
from workings.answers.options import option_first, option_said, option_worth, with_ticked
from workings.answers.question_words import measure_asked, telling_words
from workings.answers.sentences import (
    bare_opening,
    bold_opening,
    corrects,
    explained_opening,
    is_conclusion,
    last_definition,
    last_lines,
    named_opening,
    sentences,
    tidy,
    up_to_bold,
)
from workings.answers.thinking import AfterThinking, text_after_thinking
from workings.errors import RequestError

EXTRACTION_VERSION = 2
"""Raised whenever a rule changes what it finds; scorecards of different versions are not comparable."""
KNOWN_VERSIONS = (1, EXTRACTION_VERSION)
"""Versions by which a record can be scored again; those before this one stand in ``version_N``."""

Rule = Callable[[AfterThinking, Kind], str | None]

# Characters. A longer text is an explanation that holds the answer, not the answer.
MAX_AFTER_THINK = 200
MAX_LINE = 300
MAX_FACT_LINES = 12
"""Last lines that may hold the sentence which answers a question for a fact."""
LOOKED_AT = 50
"""Last marks of a kind that are looked at."""


def answer_kind(expected: str) -> Kind:
    """What kind of answer is expected."""
    if parse_number(expected) is not None or parse_words(expected) is not None:
        return "number"
    if re.fullmatch(r"\s*\(?[A-Ja-j]\)?\.?\s*", expected):
        return "choice"
    return "yes_no" if expected.strip(" .").casefold() in TRUTHS else "text"


def answer_tag(text: AfterThinking, kind: Kind) -> str | None:
    """Text of the last ``<answer>…</answer>``; one that is open at the end of a cut text is no answer."""
    end = text.text.rfind("</answer>")
    if text.text.rfind("<answer>") > end and not text.truncated:
        end = len(text.text)
    start = text.text.rfind("<answer>", 0, end) if end >= 0 else -1
    return _meant(text.text[start + len("<answer>"):end].partition("</answer>")[0], kind) if start >= 0 else None


_HEADING = re.compile(
    r"[\s*_]*(?:step|part|case|phase|stage|option|method|approach|section|question|problem|example|task"
    r"|point)\s*[\dA-Z]|[\s*_]*\d+[.):]\s"
    r"|[\s*_]*(?:conclusion|solution|explanation|analysis|summary|reasoning|verification|check|calculation"
    r"|heading|overview|introduction|given"
    r"|answer|final answer|result|final result|understanding|setup|approach|discussion|background|key|note|why"
    r"|how|what|steps?|let)\b[^\d]*$",
    re.IGNORECASE)


def hashes(text: AfterThinking, kind: Kind) -> str | None:
    """Rest of the line after the last ``####`` (GSM8K) that is no heading and has no box behind it."""
    for at, rest, behind in _hash_lines(text.text):
        if _HEADING.match(rest) and parse_number(tidy(rest)) is None:
            continue
        if "\\boxed" in behind or "\\fbox" in behind:
            continue
        # A number that ends a text which was cut off may be the beginning of another one.
        if text.truncated and not behind.strip() and "\n" not in text.text[at:].rstrip(" "):
            continue
        # A heading without a number (`#### Notes`) is none, wherever it stands.
        if kind == "number" and parse_number(tidy(rest)) is None and not (_is_last(behind) and _has_digit(rest)):
            continue
        if (answer := _meant(rest, kind)) is not None:
            return answer
    return None


def _hash_lines(text: str) -> Iterator[tuple[int, str, str]]:
    """Place, rest of the line, and what stands behind it, of the last lines with ``####``, from the last one."""
    end = len(text)
    # From the end and bounded: repetitive completions hold thousands of marks.
    for _ in range(LOOKED_AT):
        at = text.rfind("####", 0, end)
        if at < 0:
            return
        line_end = text.find("\n", at)
        line_end = len(text) if line_end < 0 else line_end
        yield at, text[at + 4:line_end].lstrip("#").strip(), text[line_end:]
        end = at


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def _is_last(behind: str) -> bool:
    """Whether nothing is said behind it that could be the answer."""
    return not any(map(str.isalnum, behind)) or not any(map(str.isdigit, behind[:20_000]))


def boxed(text: AfterThinking, kind: Kind) -> str | None:
    r"""Content of the last ``\boxed{…}`` or ``\fbox{…}`` that is closed; of several side by side, all of them."""
    content = last_boxes(text.text)
    return None if content is None else _meant_in_box(content, kind)


_ANNOUNCED = re.compile(r"(?:\b|_)(?=[acor])(?:answer|option|choice|antwort|respuesta|resposta|risposta|réponse)\b",
                        re.IGNORECASE)
_MARK = re.compile(
    r"[\s*_\"]{0,6}(?:,?\s*(?:then|therefore|thus|hence|here|to (?:the|this|your) (?:question|problem)|for "
    r"(?:the|this) (?:question|problem))\s*,?)?[\s*_]{0,4}"
    r"(?::|=|(?:is|are|would be|should be|must be|will be|was)\b(?:\s+(?:therefore|thus|then|simply"
    r"|that))?\s*:?)[\s*_]*", re.IGNORECASE)
_NO_ANSWER = re.compile(r"(?:correct|right|helpful|above|as follows|below|clear|obvious|wrong|incorrect|given"
                        r"|found|unknown|in (?:the|a)|shown|reasonable"
                        r"|consistent|verified|confirmed)\b", re.IGNORECASE)


# "…, so the answer is 156. Wait, that is wrong": it is none any more.
_TAKEN_BACK = re.compile(r"(?:^|[.!\n]\s*)(?:(?:no|hmm|oh),?\s)?(?:wait|correction|oops)\b"
                         r"|\bthat(?:['’]s| is| was) (?:wrong|incorrect|not right)\b"
                         r"|\bI (?:made a mistake|forgot)\b", re.IGNORECASE)


def answer_phrase(text: AfterThinking, kind: Kind) -> str | None:
    """What follows the last "Answer:", "the answer is" or heading "Final answer"; the answer of a JSON object."""
    if value := json_answer(text.text):
        return _meant(value, kind)
    # From the end, because a later announcement corrects an earlier one; bounded for texts that repeat themselves.
    for match in reversed([*_ANNOUNCED.finditer(text.text)][-LOOKED_AT:]):
        segment, closed = _announced(text.text, match.end())
        if not segment or _NO_ANSWER.match(segment) or _TAKEN_BACK.search(text.text, match.end()):
            continue
        # Cut off in the middle, the last word may be half a number.
        if text.truncated and not closed:
            segment = re.sub(r"[^\s]*\s*$", "", segment)
        is_answer = match.group().casefold().strip("_") not in ("option", "choice")
        if kind in ("number", "text") and not is_answer and choice_in(segment) is None:
            continue
        answer = _meant(segment, kind)
        if answer is not None and (kind == "text" or answer != tidy(segment) or _is_answer(answer, kind)):
            return answer
    return None


def _announced(text: str, start: int) -> tuple[str, bool]:
    """What an announcement is followed by, in its line or the next one; and whether text stands behind it."""
    mark = _MARK.match(text, start)
    line_end = text.find("\n", start)
    line_end = len(text) if line_end < 0 else line_end
    if mark is None or (mark.end() > line_end and not mark.group().strip(" *_\"\n")):
        # A heading: nothing but marks behind it on its line.
        if text[start:line_end].strip(" *_:#\r=\t") or line_end - start > 40:
            return "", True
        begin = line_end
    else:
        begin = min(mark.end(), line_end)
    rest = text[begin:begin + 4 * MAX_LINE].lstrip("*_: \t")
    segment = re.split(r"\n|\",\s*\"", rest, maxsplit=1)[0].strip()
    if not segment.strip("*_:$ \\"):
        # The next line that is not blank.
        lines = [line for line in rest.split("\n") if line.strip("*_: ")]
        segment = lines[0].strip() if lines else ""
    # A display that begins on a line of its own.
    if segment in ("\\[", "$$", "\\(", "\\boxed{", "```"):
        at = rest.find(segment)
        closing = {"\\[": "\\]", "$$": "$$", "\\(": "\\)", "\\boxed{": "}", "```": "```"}[segment]
        end = rest.find(closing, at + len(segment))
        segment = rest[at + len(segment):end if end >= 0 else None].strip()
    return segment, bool(text[begin + rest.find(segment) + len(segment):].strip()) if segment else True


def after_think(text: AfterThinking, kind: Kind) -> str | None:
    """A short text behind the thinking; for numbers, only if it is one."""
    rest = text.text.strip()
    if not text.thought or not rest or len(rest) > MAX_AFTER_THINK or text.truncated:
        return None
    if kind == "number":
        return tidy(rest) if parse_number(tidy(rest)) is not None else None
    return whole(text, kind)


def last_number(text: AfterThinking, kind: Kind) -> str | None:
    """The number that the last telling sentence says; a short text that is a number as a whole."""
    whole = tidy(text.text) if len(text.text) <= MAX_LINE and "=" not in text.text and not text.truncated else ""
    if whole and _is_answer(whole, "number"):
        return whole
    lines = [] if text.truncated else last_lines(text.text)
    for opening in map(tidy, (without_which(bold_opening(lines), text.question), bare_opening(lines),
                               explained_opening(lines, text.question))):
        if parse_number(opening):
            return opening
    return list_entry_for(lines, text.question) or final_number(text.text, text.question, truncated=text.truncated)


def whole(text: AfterThinking, kind: Kind) -> str | None:
    """The completion itself where it is one short line, else its last line."""
    stripped = text.text.strip()
    if kind == "text" and text.truncated and (statements := _before_the_cut(stripped, text.question)):
        return answering_sentence(statements, text.question) or None
    if not stripped or text.truncated:
        return None
    if kind != "number" and (chosen := _chosen(stripped, kind, text.question)):
        return chosen
    lines = last_lines(stripped) if "\n" in stripped else [stripped]
    last = lines[-1] if lines else ""
    if len(last) > MAX_LINE:
        return None
    if kind == "text" and (entries := listed(lines) or assigned(lines) or labelled_for(lines[-4:], text.question)):
        return entries
    if opening := bold_opening(lines) or (named_opening(lines) if kind == "text" else ""):
        return tidy(opening)
    if kind == "text" and (answering := answering_sentence(
            [sentence for line in lines[-MAX_FACT_LINES:] for sentence in sentences(line)], text.question)):
        return answering.strip()
    statements = up_to_bold(last)
    while len(statements) > 1 and _SUPPOSED.match(statements[-1]):
        statements.pop()
    # Of several sentences in the last line, the last or the one that concludes.
    concluding = next((sentence for sentence in reversed(statements) if is_conclusion(sentence)),
                      last_definition(statements)) if statements else last
    concluding = concluding if len(sentences(last)) > 1 else last
    if kind == "text" and re.match(r"[$ ]*value\s*=", value_for_asked(
            last_clause(concluding) or concluding, text.question)):
        concluding = f"value = {concluding.rpartition('=')[2].strip(' $')}"
    return tidy(concluding)


def _chosen(text: str, kind: Kind, question: str) -> str | None:
    """What a text chooses of what its question offers: a letter, yes or no, one of two words."""
    if kind != "choice" and (word := alternative_said(text[-20_000:], question)):
        return word
    if kind == "text":
        again = _AGAIN_AND_AGAIN.fullmatch(text) if len(text) <= MAX_LINE else None
        return again and again[1]
    if kind == "choice" and (letter := option_first(text, question)):
        return letter
    asked = is_it_true(question)
    if (answer := _meant(text[-20_000:], kind)) is not None and (answer in TRUTHS or kind == "choice") and (
            len(answer) <= 5):
        return answer if kind == "choice" or asked == question else _AS_TRUTH.get(answer, answer)
    if kind == "choice":
        return option_said(text, question) or option_worth(text, question)
    stated = stated_in(text, asked)
    return stated if not stated or asked == question else _AS_TRUTH[stated]


def _before_the_cut(text: str, question: str) -> list[str]:
    """The whole sentences of a line that was cut off which say all words of a question; none where its end corrects."""
    statements = sentences(text[-20_000:])
    question_words = set(telling_words(question)) - {"who", "whom", "whose", "where"}
    if "\n" in text or any(corrects(sentence) or is_conclusion(sentence) for sentence in statements[1:]):
        return []
    return [sentence for sentence in statements[:-1]
            if question_words and question_words <= set(telling_words(sentence))]


_AS_TRUTH = {"yes": "true", "no": "false"}
_AGAIN_AND_AGAIN = re.compile(r"(\S.{1,60}?)(?:[\s,.]+\1){2,}\W*")
_SUPPOSED = re.compile(r"\W*(?:if|with|without|had)\b.*(?:\bwould\b|['’]d\b)", re.IGNORECASE)
RULES: dict[str, Rule] = {rule.__name__: rule for rule in (
    answer_tag, hashes, boxed, answer_phrase, after_think, last_number, whole)}
# From the plainest mark to the vaguest: a tag is meant as the answer, a last number may be anything.
_TEXT_RULES = ("answer_tag", "hashes", "boxed", "answer_phrase", "after_think", "whole")
DEFAULT_RULES: dict[Kind, tuple[str, ...]] = {
    "number": ("answer_tag", "hashes", "boxed", "answer_phrase", "after_think", "last_number"),
    "choice": _TEXT_RULES, "yes_no": _TEXT_RULES, "text": _TEXT_RULES}


# GSM8K's notes for a calculator: "5 x 12 = <<5*12=60>>60".
_CALCULATOR = re.compile(r"<<[^<>\n]{0,200}>>")


_EMOJI = re.compile("[\U0001F1E6-\U0001F1FF\U0001F300-\U0001FAFF\uFE0F\u200D✅✔✓❌✖✗✘]")
# "… 56 crayons 😄 Want another one?": it ends the sentence before a question.
_EMOJI_BEFORE_QUESTION = re.compile(rf"(?<=[\w)*%])\s*{_EMOJI.pattern}+\s+(?=[A-Z][^.!?\n]{{1,120}}\?)")


def check_rules(names: Sequence[str]) -> None:
    """Raise `RequestError` for a rule that does not exist."""
    unknown = [name for name in names if name not in RULES]
    if unknown:
        raise RequestError(f"extraction rules: {', '.join(unknown)}", f"some of {', '.join(RULES)}")


def extract(text: str, kind: Kind, rules: Sequence[str] = (), *, truncated: bool = False, question: str = ""
            ) -> Extraction:
    """The first rule (in the order given; empty: the default order for this kind) that finds a non-empty answer.

    Args:
        text: the completion.
        kind: what is expected.
        rules: names of rules; empty: the default ones.
        truncated: the completion was cut off by the limit on new tokens; then what stands at its very end is no answer.
        question: what is answered: where a last sentence says several numbers its words choose; empty: nobody knows it.
    """
    # Before the rules, so that none of them has to know what is no prose.
    if (open_tag := text.rstrip().rpartition("<")[2]) and "/answer".startswith(open_tag) and len(open_tag) > 1:
        text = f"{text.rstrip()[:-len(open_tag)]}/answer>"
    plainer = _CALCULATOR.sub("", _without_drawings(with_ticked(text, question) if kind == "choice" else text))
    plainer = _EMOJI.sub("", _EMOJI_BEFORE_QUESTION.sub(". ", plainer))
    if kind == "number":
        plainer = full_hours_asked(with_decimal_points(plainer, question), question)
        plainer = in_unit_asked(plainer, measure_asked(question))
    spoken = text_after_thinking(whole_fractions(plainer), truncated=truncated, question=question)
    for name in rules or DEFAULT_RULES[kind]:
        answer = RULES[name](spoken, kind)
        if answer is not None and answer.strip():
            return Extraction(_in_coins_asked(answer.strip(), question) if kind == "number" else answer.strip(), name)
    return Extraction("", NO_RULE)


_PER_ONE = r"(?:\s(?:per|for each|each)\b[^\d]*)?\W*"
_CENTS = re.compile(rf"\W*(\d{{1,9}})\s?(?:cents?|¢){_PER_ONE}", re.IGNORECASE)
_DOLLARS = re.compile(rf"\W*\$(\d{{0,9}})\.(\d\d){_PER_ONE}", re.IGNORECASE)


def _in_coins_asked(answer: str, question: str) -> str:
    """`10 cents` as ``$0.10`` where a question speaks of dollars alone, and the other way round where it asks in cents.

    Any other answer as it is.
    """
    if (dollars := _DOLLARS.fullmatch(answer)) and re.search(r"\b(?:in|how many) cents\b", question, re.IGNORECASE):
        return f"{int(dollars[1] or 0) * 100 + int(dollars[2])} cents"
    cents = _CENTS.fullmatch(answer)
    if cents is None or not re.search(r"\$|\bdollars?\b", question) or re.search(r"\bcents?\b|¢", question):
        return answer
    return f"${int(cents[1]) // 100}.{int(cents[1]) % 100:02}"


def _without_drawings(text: str) -> str:
    """A text without `[asy]…[/asy]`; not by a pattern, which would look for each end again."""
    first, *others = text.split("[asy]")
    return first + "".join(other.partition("[/asy]")[2] if "[/asy]" in other else other for other in others)


def _is_answer(text: str, kind: Kind) -> bool:
    return parse_number(text) is not None or parse_words(text) is not None if kind == "number" else len(text) <= 5


def _meant(segment: str, kind: Kind) -> str | None:
    """What a marked text means as an answer of this kind: the text itself where nothing in it is plainer."""
    if segment.count("\\box") == 1 and (content := last_boxes(segment)) is not None:
        return _meant_in_box(content, kind)
    answer = tidy(segment)
    if kind == "number":
        if parse_number(answer) is not None or parse_words(answer) is not None:
            return answer
        return sentence_number(segment) or answer
    if kind == "choice":
        return choice_in(segment) or answer
    if kind == "yes_no":
        return truth_in(segment) or answer
    told = sentences(segment.strip().split("\n", 1)[0] if "\\begin" not in segment else segment)
    return tidy(told[0]) if told else None


def _meant_in_box(content: str, kind: Kind) -> str | None:
    """A box is meant exactly; only a sentence in it is read as one."""
    if kind == "text":
        return content.strip()
    if kind == "number" and parse_number(content) is None and re.search(r"[A-Za-z]{2,}\s+\S*\d"
        r"|\d\s*[A-Za-z]{2,} [A-Za-z]{2,}", plain(content)):
        return sentence_number(content) or content.strip()
    if kind == "number":
        return content.strip()
    return _meant(content, kind)
