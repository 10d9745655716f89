"""The number that a sentence says: not the operand, not the one of "for 2 weeks", not a digit of a name.

A sentence that says an expression (`4x + 7`), a pair or a choice between numbers says none.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from workings.answers.about_asked import (
    about_asked,
    average_asked,
    is_in_another,
    is_rate,
    is_said_of_another,
    year_asked,
)
from workings.answers.arithmetic_before_equals import ends_with_arithmetic
from workings.answers.latex import plain, spaced_digits
from workings.answers.main_clause import VERBS_OF_RESULT, last_clause, main_clause, without_lead
from workings.answers.numbers import CURRENCY, decimal_points, equal_numbers, in_two_units, names_a_value, parse_number
from workings.answers.numbers_in_sentence import numbers_in
from workings.answers.question import (
    answers_before,
    asked_for,
    asks_about,
    counts_another,
    counts_asked,
    counts_otherwise,
    is_named_count,
    is_of_another,
    says_question,
)
from workings.answers.question_words import NumberAt, measure_asked
from workings.answers.sentences import is_conclusion, last_lines, sentences, up_to_bold, without_reason
from workings.answers.spelled_out_number import spelled_out_number
from workings.answers.stated_numbers import VERBS_OF_THE_PAST, is_stated
from workings.answers.states_a_result import (
    asks_back,
    is_failure,
    is_needed,
    is_question,
    is_supposition,
    states_no_result,
    supposes_or_plans,
)

_MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}"
# "2 out of 5" is a number where a share is asked for.
_SHARE = re.compile(r"\b(?:probability|chance|fraction|proportion)\b", re.IGNORECASE)
_OUT_OF = re.compile(r"(?<![\d./])(\d{1,6}) (?:out of|in) (\d{1,6})(?![\d./%])")
# Of "on 15 April 1912" a number is the year.
_DAY = re.compile(rf"\b(?:\d\d?(?:st|nd|rd|th)?(?: of)? {_MONTH}[.,]? |{_MONTH}\.? \d\d?(?:st|nd|rd|th)?, "
                  rf"|(?<=\bin ){_MONTH},? )(?=\d{{4}}\b)", re.IGNORECASE)
_IMPLIES = re.compile(r"\\(?:implies|Rightarrow|Longrightarrow|Leftrightarrow|iff|longrightarrow)(?![a-zA-Z])")
# "Answer - 24" is no negative number.
_DASHED = re.compile(r"(?<=answer|result) - |(?<=total) - ", re.IGNORECASE)
# "11 males — 5 more females" says no -5.
_DASH = re.compile(r"(?<=[^\W\d_])\s?—\s?(?=\W{0,4}\d)")
_MINUS = re.compile(r"(?<![\d)] )\b(?:minus|negative) (?=\d)", re.IGNORECASE)
# "7 degrees below zero".
_BELOW_ZERO = re.compile(r"(?<![-−\d.])(\d+(?:\.\d+)?(?:\s?°[CF]?|\sdegrees?(?:\s(?:Celsius|Fahrenheit|C|F))?)?)"
                         r"\sbelow zero\b", re.IGNORECASE)
# "2^10 ≡ 2 (mod 7)".
_EQUIVALENT = re.compile(r"(?<=[\d)}])\s*(?:≡|\\equiv(?![a-z]))")
_MODULUS = re.compile(r"(?<=\d)\s*(?:\\pmod\s*\{?\d{1,9}\}?|\(\s*\\?b?mod\s*\d{1,9}\s*\))")
# What "is equal to" and "minus" are in Spanish, German, French, Italian and Portuguese.
_EQUAL_ELSEWHERE = re.compile(r"\s(?:es igual a|ist gleich|est égale? à|è uguale a|é igual a)\s", re.IGNORECASE)
_MINUS_ELSEWHERE = re.compile(r"(?<=\d )(?:menos|moins|meno)(?= \d)", re.IGNORECASE)
_LED_IN = re.compile(r"^(?:=>|->|>>>|[⇒→∴:]|\s)+")
_UNKNOWN = r"[^\W\d_](?:_\{?\w{1,3}\}?)?"
_JOINED = re.compile(r"^(?!\s?(?:is|are|was|were|equals?)\b)"
                     r"[^\W\d]*(?:\s?[^\W\d_]+){0,2}\s*(?:,?\s?(?:or|and|to|through)\s(?:(?!\w+ing\b|ha[sd]\b|have\b)[^\W\d_]+\s)?"
                     r"|[–-]\s*|,\s*"
                     r"|,\s(?!(?:total|sum|answer|so|[a-z]+ing)\b)(?:for\s)?[^\W\d_]+:?\s)$", re.IGNORECASE)
_SECOND_CLAUSE = re.compile(rf"\s(?:and|while|whereas)\s(?!(?:then |now |still )?(?:{VERBS_OF_RESULT}|[a-z]+ed)\b)")
_SECOND_VERB = re.compile(rf"[^=,]{{0,40}},?\s(?:and|while|whereas)\s(?:{VERBS_OF_THE_PAST})\b"
                          r"|[^=]{0,80}\s(?:and|but)\s(?:[^\W\d_]+\s){1,4}(?:is|are|was|were)\s\W{0,3}\d")
_OPERAND = re.compile(r"(?:(?!\s(?:and|or)\s)[^=≈,;:.])*[=≈]")
_OPERAND_OF = re.compile(r"\b(?:average|mean|sum|total|product|difference) (?:of|between) (?:[^\W\d_]+\s){0,2}\W?$",
                         re.IGNORECASE)
# "70% of $1,050, which equals $735": of what a part is taken.
_WHOLE = re.compile(r"(?:%|percent|half|thirds?|quarters?|\d/\d+) of \W{0,3}$")
_BREAKDOWN = re.compile(r"\s\([^()]*\)|:\s.*", re.DOTALL)
_IN_BRACKETS = re.compile(r"\s\([^()]*\)")
# "plus $5 for Monday: $110": what all of it comes to.
_SUMMED_UP = re.compile(r"[^\W\d_]:\s\W{0,3}$")
# "$2,088 over the 4 weeks, or $522 per week": a rate is no other unit of the same.
_RATE_BEHIND = re.compile(r"\W{0,3}(?:per|each|every|an?)\b", re.IGNORECASE)
# "If he left out the CD, he would still lack 45 euros": a line that supposes something else than the one before it.
_IN_ANOTHER_CASE = re.compile(r" would then |^\W*If\b[^,]*, [^,]*\bwould\b")
# "… so it takes 17 minutes. From there it's 15, but the climb starts lower.": behind a conclusion it is no other.
_LIMITED = re.compile(r"^(?!\W*(?:so|but|thus|therefore|hence)\b)[^=]*\d[^=\d]*, but\s[^\d=]*$", re.IGNORECASE)
# An equation with "so it's right!" behind it checks what was said before.
_CHECKED = re.compile(r"=[^=]*\bso (?:it|that|this|everything|all)(?:['’]s| is| was| checks| works| fits)"
                      r"(?: (?:right|correct|true|okay|ok|fine|out|good))?\W*$", re.IGNORECASE)
# What stands around the number of which a part is taken, up to the verb.
_PART_OF = re.compile(r"^.*\bof \W{0,3}(?=\d)|(?<=\d)[^\d,.].*$")
# "12 is the greatest common divisor of 36 and 48": what the sentence is about stands before the verb.
_SUBJECT = re.compile(r"\s(?:is|are|was|were) (?:the|our|your|his|her|their)\b")


def final_number(text: str, question: str = "", *, truncated: bool = False) -> str | None:
    """The number that the last telling sentence of a text says, as written; None where it says none.

    Of several numbers that a sentence says, the words of the question choose. Of a text that was cut off, only a whole
    sentence that is a conclusion counts.
    """
    text = _OUT_OF.sub(r"\1/\2", text) if _SHARE.search(question) else text
    measure, other, needs_measure = measure_asked(question), None, False
    for sentence, number in _from_the_end(_whole_sentences(text) if truncated else text, question, truncated):
        in_another = is_in_another(number, question) and (bool(measure) or not is_conclusion(sentence))
        if not in_another and not (measure and number and _counts_named(sentence, number, question)) and (
                other is None or (number and not needs_measure)):
            return number
        needs_measure = needs_measure or (in_another and bool(measure))
        # "In other words, about 144 million kilometers": the meters that were asked for stand before it.
        if needs_measure and (same := _in_measure(sentence, measure)):
            return same
        other = other or number
    return other


def _from_the_end(text: str, question: str, truncated: bool) -> Iterator[tuple[str, str | None]]:
    """The sentences that say a number, the last one first, with it; None where one decides that there is none."""
    has_question = asked_back = of_another = False
    for line, before in pairwise([*reversed(last_lines(text)), ""]):
        if (truncated or has_question) and not is_conclusion(line):
            continue
        if is_failure(line):
            return
        statements = up_to_bold(line)
        for index, sentence in reversed([*enumerate(statements)]):
            # "His balance would then be $3,180.", below the interest that was asked for.
            earlier = statements[index - 1] if index else before * (
                _IN_ANOTHER_CASE.search(sentence) is not None and "would" not in question)
            if is_question(sentence):
                # Before it only a conclusion can be the answer: the rest may be the question said once more.
                has_question, asked_back = True, asked_back or asks_back(sentence)
                continue
            if asked_back and not is_conclusion(sentence):
                continue
            sentence = about_asked(sentence, question)
            if states_no_result(sentence):
                return
            if is_said_of_another(sentence, question) or _CHECKED.search(sentence):
                continue
            if earlier and (is_supposition(sentence, question) or (index and is_rate(sentence, question)) or (
                    _LIMITED.search(sentence) and last_clause(earlier))) and _said(earlier, strict=True)[0] is not None:
                continue
            number, decided = _concluded(sentence, question, alone=len(sentence) == len(text.strip()))
            # "Ben is 12. Ann is 16." says of Ben what is asked of him; "So Ann is 12." alone says nothing of him.
            of_another = of_another or (number is not None and is_of_another(sentence, question))
            if (of_another and not asks_about(sentence, question)) or (
                    index and decided and _is_remark(sentence, number or "", statements[:index], question)):
                continue
            if decided:
                yield sentence, _asked_for(sentence, question, number)


def _counts_named(sentence: str, said: str, question: str) -> bool:
    """Whether a number counts what a question names and does not ask for: "18 pieces" where days are asked for."""
    prepared, read = _prepared(sentence), parse_number(said)
    return read is not None and not read.unit.measure and any(
        number.text == said and is_named_count(prepared, number, question) for number in numbers_in(prepared)[0])


def _in_measure(sentence: str, measure: str) -> str:
    """The last number of a sentence in a measure, in brackets too; empty where there is none."""
    numbers = [number.text for number in numbers_in(_prepared(sentence), elliptic=True)[0]]
    return next((text for text in reversed(numbers) if (read := parse_number(text)) and read.unit.measure == measure),
                "")


def _whole_sentences(text: str) -> str:
    """A text up to its last end of a sentence: a number behind it may be the beginning of another one."""
    ends = [stop.end() for stop in re.finditer(r"\n|[.!?](?=\s)", text[-20_000:])]
    return text[-20_000:][:ends[-1]] if ends else ""


def _asked_for(sentence: str, question: str, stated: str | None) -> str | None:
    """The number that the question asks for, of several in a sentence; else the one that the sentence says."""
    if stated and (year := year_asked(sentence, stated, question)):
        return year
    if stated and stated.isalpha() and not any(map(str.isdigit, last_clause(sentence) or sentence)):
        return stated  # "The first 2 hours need none, so she will need six tanks."
    if "=" in sentence and (clause := last_clause(sentence)) and "=" not in clause:  # "a / b = 12, so it fills 12 …"
        sentence = clause
    sentence = _prepared(sentence)
    if stated and (average := average_asked(sentence, numbers_in(sentence)[0], question)):
        return average
    if not question or (stated and in_two_units(stated)):
        return stated
    if states_no_result(sentence) or supposes_or_plans(sentence):
        return stated
    # What an equals sign follows is an operand of what stands behind it; a number in brackets says one again.
    numbers = [number for number in numbers_in(sentence, elliptic=True)[0] if not (
        _OPERAND.match(sentence, number.end) or (sentence[:number.start].endswith("(") and sentence.startswith(
            ")", number.end)) or (sentence.startswith(" and ", number.end) and _OPERAND_OF.search(
                sentence[:number.start][-60:])) or (sentence.startswith(", which ", number.end) and _WHOLE.search(
                    sentence[:number.start][-60:])))]
    at = next((at for at in reversed(range(len(numbers))) if numbers[at].text == stated), None)
    if stated and "=" in sentence and (at is None or not counts_another(sentence, numbers, at, question)):
        return stated
    if at is not None and counts_otherwise(sentence, numbers, at, question):
        del numbers[at]
        stated = None
    left = [number for number in numbers if not is_named_count(sentence, number, question)]
    if stated is None and len(left) == 1 < len(numbers) and last_clause(sentence) and not left[0].circumstance and (
            is_stated(sentence, left[0].start, left[0].end)):
        return left[0].text  # "so there are 8 of them, plus 12 chickens"
    return asked_for(sentence, numbers, question, stated)


def _is_remark(sentence: str, number: str, told: list[str], question: str) -> bool:
    """Whether one of the sentences before it answers the question with a number, and this one says less of it."""
    return any(answers_before(earlier, sentence, number, question) and _concluded(earlier, question, alone=False)[0]
               for earlier in told[-3:])


def _concluded(sentence: str, question: str, *, alone: bool) -> tuple[str | None, bool]:
    """The number of a sentence in digits or in words, and whether the sentence decides."""
    if counted := _counted_in_words(sentence, question):
        return counted, True
    bare = _IN_BRACKETS.sub("", sentence)
    if is_conclusion(sentence) and not any(map(str.isdigit, bare)) and (in_words := spelled_out_number(bare)):
        return in_words, True  # "So five fourteenths (about 36 %) are left."
    digits = any(map(str.isdigit, sentence))
    concludes = not digits and (alone or is_conclusion(sentence))
    in_words = (spelled_out_number(sentence) if concludes else "") or spelled_out_number(
        last_clause(sentence) or without_lead(sentence))
    # Behind digits "three quarters of the cake" says the same number as a part.
    if in_words and not (digits and re.search(rf"{in_words} of (?!them\b)", sentence)):
        return in_words, True
    return _said(sentence, strict=not (is_conclusion(sentence) or last_clause(sentence))) if digits else (None, False)


def _counted_in_words(sentence: str, question: str) -> str:
    """The number in words of what a question counts, where a sentence says nearly all of its words; else empty.

    Digits in brackets and behind a colon are parts of it.
    """
    if "=" in sentence or not says_question(sentence, question):
        return ""
    sentence = re.sub(r"\b\d+(?!\d)", lambda digits: digits[0] if digits[0] not in question else "", sentence)
    return spelled_out_number(without_reason(_BREAKDOWN.sub("", sentence)), lambda word: counts_asked(word, question))


def sentence_number(sentence: str) -> str | None:
    """The number that one sentence, or the first of several, says."""
    for part in sentences(sentence[:2_000].strip()):
        if any(map(str.isdigit, part)):
            return _said(part)[0]
    return None


def _said(sentence: str, *, strict: bool = False) -> tuple[str | None, bool]:
    """The number, and whether the sentence decides: one that says an expression or two numbers says none.

    Strictly only a number counts that stands alone, in an equation, in bold, as what a verb says or as its subject.
    """
    if states_no_result(sentence):
        return None, True
    sentence = main_clause(_prepared(sentence), lambda part: bool(numbers_in(part)[0]))
    if supposes_or_plans(sentence):
        return None, True
    numbers, algebra = numbers_in(sentence)
    if not numbers:
        return None, algebra
    at = max(sentence.rfind("="), sentence.rfind("≈"))
    # An equation says its result on its right, whatever other numbers the sentence has.
    if at >= 0:
        return _right_side(sentence, at, numbers)
    if len(numbers) > 1 and _SUBJECT.match(sentence, numbers[0].end):
        return numbers[0].text, True
    if (needed := next((number for number in numbers if is_needed(sentence[max(0, number.start - 120):number.start])),
                       None)) is not None:
        return needed.text, True
    bold = [span.span() for span in re.finditer(r"\*\*[^*]+\*\*", sentence)]
    marked = [number for number in numbers if any(start <= number.start < end for start, end in bold)]
    said = [number for number in numbers if not strict or is_stated(sentence, number.start, number.end)]
    chosen = _chosen(marked or said)
    # "5 feet 6 inches" is one value in two numbers.
    if chosen is not None and (pair := _in_two_units(sentence, chosen, numbers)):
        return pair, True
    if chosen is None or _is_open(sentence, chosen, marked or numbers) or (
            not marked and _is_second(sentence, chosen, said)):
        return None, True
    return chosen.text, True


@lru_cache(maxsize=64)
def _prepared(sentence: str) -> str:
    """A sentence in one spelling of numbers, signs and powers."""
    # Of a chain of equations the last one counts.
    sentence = _BELOW_ZERO.sub(r"-\1", _IMPLIES.sub("⇒", _DAY.sub("", sentence)))
    sentence = _DASH.sub(": ", re.sub(r"^.*[→⇒⟹](?=[^→⇒⟹]*\d)", "", sentence))
    sentence = _DASHED.sub(": ", decimal_points(spaced_digits(plain(sentence))))
    sentence = re.sub(r"(?<=\d)\s+(?=\s)", "", sentence)
    # Of "$3/4$" and "$8 m/s$" the signs are no currency.
    sentence = re.sub(r"(?<!\\)\$(\s?-?[\d.,/]+(?:\s?%?|\s[a-zA-Z][\w/^{}]{0,9})\s?)\$(?!\d)", r"\1", sentence)
    sentence = re.sub(r"(?<!\\)\$(?!\s?-?[\d.])", "", sentence).replace("__", "**").replace("&=", "=").strip()
    sentence = _EQUAL_ELSEWHERE.sub(" = ", _MINUS_ELSEWHERE.sub("-", sentence))
    sentence = _EQUIVALENT.sub("=", _MODULUS.sub("", sentence))
    sentence = _LED_IN.sub("", _MINUS.sub("-", sentence))
    # A power written with stars is no bold text.
    sentence = re.sub(r"(?<=\d) ?[xX] ?(?=\d)", " * ", sentence)
    return re.sub(r"(?<=[\d)])(?:\*\*|\s\*\*\s)(?=[\d(])", "^", sentence)


def _right_side(sentence: str, at: int, numbers: Sequence[NumberAt]) -> tuple[str | None, bool]:
    left = sentence[:at]
    # The equation begins behind the last word that leads to it.
    begin = max((word.end() for word in re.finditer(
        r"(?:\b(?:is|are|so|that|and|have|get|gives|then|thus|hence|therefore|where|by|total of|have got|was|were|be)\b"
        r"|[:;]|\bi\.e\.,?|\b(?:it|that)['’]s\b|,\s(?!\d{3}))\s*", left, re.IGNORECASE)), default=0)
    part = left[begin:].strip(" *$")
    behind = [number for number in numbers if number.start > at]
    if len(behind) > 1 and re.fullmatch(r"\W*\sis\s\W{0,3}", sentence[behind[0].end:behind[1].start]):
        return behind[1].text, True  # "The reciprocal of 2 1/3 = 7/3 is 3/7."
    *formula, worked_out = re.split("[=≈]", part)
    if formula and re.search(r"\bis\W*$", left[:begin]) and re.search(r"\d", worked_out):
        part = worked_out  # "The discriminant is b² - 4ac = 16 - 40 = -24."
    second_solution = re.search(rf"\b{_UNKNOWN}\s?=\s?-?\d[^=]*(?:\bor\b|\band\b|,)\s*{_UNKNOWN}\s*$", left)
    if second_solution or not (names_a_value(part or left) or ends_with_arithmetic(left)):
        return None, True
    if not behind or re.search(r"[^\s*$£€≈=~({-]", re.sub(CURRENCY, "", sentence[at + 1:behind[0].start])):
        return None, True
    if pair := _in_two_units(sentence, behind[0], behind):
        return pair, True
    if _SUMMED_UP.search(sentence[:behind[-1].start]) and re.fullmatch(
            r"\W*(?:[^\W\d_]+\W*)?", sentence[behind[-1].end:]):
        return behind[-1].text, True  # "… = $105, plus $5 for Monday: $110."
    if _is_open(sentence, behind[0], behind) or _goes_on(sentence, behind):
        return None, True
    exact = next((number for number in reversed(numbers) if number.end <= at), None)
    if sentence[at] == "≈" and exact is not None and re.fullmatch(r"[\s*$]*", sentence[exact.end:at]) and re.search(
            r"=[\s*$]*$", sentence[:exact.start]):
        return sentence[exact.start:behind[0].end], True  # "= 1/6 ≈ 0.167": both are said
    return behind[0].text, True


def _chosen(numbers: Sequence[NumberAt]) -> NumberAt | None:
    plainly = [number for number in numbers if not number.circumstance]
    if plainly:
        return plainly[-1]
    return numbers[0] if numbers else None


def _in_two_units(sentence: str, chosen: NumberAt, numbers: Sequence[NumberAt]) -> str:
    """The text of the chosen number and the one beside it, where they say the same in two units; or ""."""
    index = numbers.index(chosen)
    for earlier, later in pairwise(numbers[max(0, index - 1):index + 2]):
        text = sentence[earlier.start:later.end].replace("*", "")
        if in_two_units(text) and not _RATE_BEHIND.match(sentence, later.end):
            return text
    return ""


def _is_second(sentence: str, chosen: NumberAt, said: Sequence[NumberAt]) -> bool:
    """Whether the clause before says a number as well: of "He is 9, and she is 16" nobody knows which is asked for."""
    earlier = [number for number in said if number.end <= chosen.start and not number.circumstance]
    if not earlier or chosen.circumstance:
        return False
    # "15% of 400 is 60, and 15% of 60 is 9": the second clause goes on with what the first one says.
    clause = _SECOND_CLAUSE.search(sentence, earlier[-1].end, chosen.start)
    return clause is not None and _PART_OF.sub("", sentence[clause.end():chosen.start]) not in [
        each.text.lstrip("$") for each in earlier]


def _goes_on(sentence: str, numbers: Sequence[NumberAt]) -> bool:
    """Whether what stands behind an equation tells another number: "she spent 4 × $5 = $20 and sold them for $32"."""
    return len(numbers) > 1 and not is_conclusion(sentence) and _SECOND_VERB.match(sentence, numbers[0].end) is not None


def _is_open(sentence: str, chosen: NumberAt, numbers: Sequence[NumberAt]) -> bool:
    """Whether the chosen number is one of several that are said side by side, or the end of a range."""
    index = numbers.index(chosen)
    pairs = [(numbers[index - 1], chosen)] if index else []
    pairs += [(chosen, numbers[index + 1])] if index + 1 < len(numbers) else []
    for earlier, later in pairs:
        between = sentence[earlier.end:later.start].replace("*", "")
        # Three words at most join numbers; longer ones are none, and the pattern would go back and forth in them.
        if len(between) < 200 and _JOINED.match(between) and (
                earlier.circumstance == later.circumstance or between.strip() in ("to", "or", "-", "–")):
            first, second = parse_number(earlier.text), parse_number(later.text)
            if first is None or second is None or not equal_numbers(first, second):
                return True
    return False
