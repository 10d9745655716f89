"""Whether two texts say the same: prose without case and articles, mathematics without spaces, lists by their parts."""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from workings.answers.latex import is_mathematics, normal_form, plain, signs
from workings.answers.main_clause import corrected, last_clause, without_lead
from workings.answers.numbers import COMPOUND, equal_numbers, lasting_seconds, measures, names_a_value, parse_number
from workings.answers.one_spelling import DATE, LAST_DAY, dates_alike, full_hours, spelt_alike
from workings.answers.sentences import sentences, without_markup, without_reason
from workings.answers.stated_numbers import VERBS_OF_THE_PAST
from workings.answers.units import NO_UNIT, MeasureUnit, read_unit, same_units

MAX_CHARACTERS = 2_000
"""A longer answer is an explanation; only its whole text is compared."""
MAX_PARTS = 30
MAX_FORMULA = 300
"""Characters of a formula whose terms may stand in another order."""
_PAIRS = {"(": ")", "[": "]", "{": "}"}
_CHOICE = re.compile(r"\(?([A-Ja-j])\)[\s.:]*(?=\S)|([A-J])[.:]\s+(?![A-Z]\.)(?=\S)")
_COPULA = re.compile(r"\b(?:is|are|was|were|equals?|gives|yields|(?:we|you) (?:get|obtain)|be|called|named|means"
                     r"|it['’]s|that['’]s)\s+"
                     r"(?:therefore |thus |then |simply |the name |called |named |probably )*", re.IGNORECASE)
HEDGED = re.compile(r"n['’]t\b|\b(?:not|never|whether|if|might|(?<!\d )may(?! \d)|maybe|perhaps|possibly|could"
                    r"|(?<!of )either|neither|or(?! equal to)"
                    r"|unsure|unclear|doubt|unlikely|think|guess|wrong|incorrect|false|except"
                    r"|(?:some|many|most|people) (?:people )?(?:would |might )?(?:say|think|believe|guess|assume)"
                    r"|unless|probably|hardly|(?:nearly|almost) (?!\d)|no longer|used to be)\b", re.IGNORECASE)
"""What a sentence says that does not assert, or denies."""
_LASTING = re.compile(r"(?<![\d.,])\d[\d.,]*\s(?:second|minute|hour|day|week)s?(?=\W*$)")
_ARROW = re.compile(r"\\(?:to|rightarrow|mapsto|longrightarrow)(?![a-zA-Z])|[→↦]")
_NAME_BEFORE = re.compile(r"^(?:(?:[A-Z]{1,3}|[a-zθαβ])(?:_\w|\([^()]*\))?(?:=|∈))+")
_TIME = re.compile(r"(?<![\d:])\d{1,3} ?: ?\d{1,3}(?::\d\d)?(?: ?[ap]\.?m\b\.?)?(?![\d:])", re.IGNORECASE)
"""The time of a clock, or a ratio."""
# "3^20 is larger."
_LARGER = re.compile(r"^([^,;]{1,40}?)\sis\s(?:the\s)?(?:more [a-z]+|[a-z]+er|[a-z]+est)\W*$")
_SIZE = re.compile(r"(?<![\w.])\d+(?:\s?(?:[×x]|\\times)\s?\d+)+(?!\w)")
_HALF_SAID = re.compile(r"(?<![\d:])(\d{1,2}:\d\d) (?:(in the morning)|in the (?:afternoon|evening)|at night)\b",
                        re.IGNORECASE)
# "was written by", "is celebrated on": what follows is what the sentence says.
_PASSIVE = re.compile(r"\b(?:is|are|was|were|been)\s(?:[a-z]+ly\s)?[a-z]+\s(?:by|on|in|at|as)\s+(?=\S)")
_NAME = r"(?:[A-Z][\w.'’-]*\s)(?:(?:[A-Z][\w.'’-]*|da|de|del|van|von|of|the)\s){0,6}"
_SUBJECT = re.compile(rf"{_NAME}(?=(?:{VERBS_OF_THE_PAST}|[a-z]{{2,}}ed|[a-z]{{2,}}[a-rt-z]s)\b)"
                      r"|[^,;]{2,60}?\s(?=(?:is|are|was|were)\s(?:by far\s|[a-z]+ly\s(?:[a-z]+ed\s)?)?"
                      r"(?:the|an?|our|your)\s)")
# "Tokyo is the capital, and one of the largest cities": no second clause.
_SECOND_CLAUSE = re.compile(r"\b(?:and(?! one of\b)|but|while|whereas|although|though|or|than)\b|;", re.IGNORECASE)
# "The largest is Rome, and the second is Milan": what each of them is.
_SECOND_SUBJECT = re.compile(r"(?:\s(?:and|while|whereas)|;)\s")
# "…, although many think so", "…, when it was said that they could leave": it hedges nothing before it.
_CONCEDED = re.compile(r", (?:(?:although|though|even though)\b[^;]*|(?:when|after|before|who|whose)\b[^,;]*)$")
# "formulated by Isaac Newton in 1687", "on 4 July 1776".
_WHEN = re.compile(r"(?<=[^\W\d_]{2}),? (?:in|on|around|during) (?:[^\W\d_]+ )?(?:\d\d?,? (?:[^\W\d_]+ )?)?\d{4}\W*$")
_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|(?<!\*)\*[^*]+\*(?!\*)")
_QUOTED_LAST = re.compile(r"\b(?:is|be|means|says?)\b:?\s[\"“]([^\"“”]+)[\"”](?:\s\([^()]*\))?\W*$")
# "x = 2 or x = 3" are two solutions, and no doubt.
_SOLUTIONS = re.compile(r"(?<![^\W\d_\\])([a-zA-Z])\s*(?:[=<>≤≥]|\\[lg]eq?\b)[^=]{1,40}?\bor\b"
                        r"(?=\W{0,6}\1\s*(?:[=<>≤≥]|\\[lg]eq?\b))")
_SAME_AGAIN = re.compile(r"\s*\(or\s[^()]*\)")
_LED_IN = re.compile(r"^(?:(?:[=⇒→∴:]|=>|->|\s)+|(?:So|Therefore|Thus|Hence)\b,?\s*)")
# A single letter is a unit only as a text within a formula.
_FORMULA_WITH_UNIT = re.compile(r"(.*?[\w)}°])\s*?(?:\s((?:square |cubic )?[a-zA-Z]{2,}(?:\s?\^?[23])?)"
                                r"|\\(?:text|mathrm|mbox)\s*\{\s*([a-zA-Z ]+)\}(\^\{?[23]\}?)?)\.?")
# "Many believe it is Sydney, but the capital is Canberra": what some believe is not said.
_BELIEVED = re.compile(r"^[^,;]{0,40}\b(?:people|many|some|most|might|may)\b[^,;]{0,40}\b(?:think|believe|assume|say"
                       r"|expect|guess)\b[^,;]{0,100}[,;]\s(?:but|however),?\s", re.IGNORECASE)
# "…, or about 153.94": the same once more.
_ROUNDED = re.compile(r",?\s(?:or|which is) (?:about|approximately|roughly|around)\s[^,;]*$"
                      r"|,?\sor,? equivalently,?\s.*$")
_FORMULA = re.compile(r"(?<!\\)\$([^$]+)\$|\\\((.+?)\\\)")
# "is the point $(0, 6)$": what kind of thing it is.
_NAMED_FORMULA = re.compile(r"(?:the |an? )?(?:ordered )?(?:point|line|set|interval|vector|pair|function|equation"
                            r"|expression|polynomial|matrix)\s(?:of\s)?\W{0,2}([$\\({\[].*[^\w\s])")
# A formula that goes on in words.
_COUNTED_ON = re.compile(r"\s*(?:[-+*/×·÷=^]|(?:times|plus|minus|more|less|of|per|divided|multiplied)\b)")
# "the Italian artist Leonardo da Vinci".
_WHO = re.compile(r"^(?:the|an?)\s(?:[^\W\d_]+\s){0,3}?[a-z]+\s(?=[A-Z])")
_DIVIDED = re.compile(r"\\[dt]?frac|[/÷]")
# "The area is πr² = 25π": of what a measure is, the last side is its value.
_MEASURED = re.compile(r"\b(?:area|volume|perimeter|circumference|length|height|width|radius|diameter|distance"
                       r"|probability|sum|product|slope|discriminant|determinant)\b[^=]*\bis\s[^=]+=(?:[^=]+=)*([^=]+)$")
_I_E = re.compile(r",\s(?:that is|i\.e\.),?\s")
_SEVERAL = re.compile(r"\W*([a-z])\s*=[^=]*(?:,|\band\b|\bor\b)\W*\1\s*=")
_CANNOT_BE = re.compile(r"\bcannot be [a-z]+\W*$")
_NO_SOLUTION = re.compile(r"\b(?:has|have|is|are) no (?:real |integer |such )?(?:solutions?|roots?)(?: [a-z ]+)?\W*$")
_MATRIX = re.compile(r"\\(?:begin|end)\{[a-zB]?matrix\}|&|\\\\")
_LETTER = re.compile(r"(?<![a-zA-Z\\])[a-zA-Z](?![a-zA-Z])")
_TERM = re.compile(r"[^\s+−-][^+−-]*")
_BRACKETED = re.compile(r"(?<=[({])[^(){}]{3,100}(?=[)}])")
_FACTORS = re.compile(r"(-?\d*[a-z]?(?:\^\d)?)((?:\([^()]+\)(?:\^\d)?){2,})")
# "Jane Austen (1775–1817)": no pair of numbers, and no argument of a function.
_REMARK_BEHIND = re.compile(r"(?<=[^\W\d_]{2})\s+\([^(),=]*\)\W*$")
_ARTICLES = "the|an|a|les?|la|el|los|las|der|die|das|il|une?|una|eine?"
_PREPOSITION = re.compile(r"^(?:on|in|at|to|by|from|for) ")


@lru_cache(maxsize=64)
def normalise_text(text: str) -> str:
    """Lower case, one space between words, no outer punctuation, no leading article; brackets stay.

    >>> normalise_text("**The  Eiffel Tower.**")
    'eiffel tower'
    """
    # Without accents: "São Paulo" is written "Sao Paulo" as well.
    text = "".join(character for character in unicodedata.normalize("NFKD", text.replace("−", "-")).casefold()
                   if not unicodedata.combining(character))
    text = re.sub(r"\\(?:text|mathrm|mbox|textbf)\s*\{([^{}]*)\}", r"\1", text)
    text = dates_alike(text)
    text = re.sub(r"^\W*((?:[a-z]\.)+[a-z])\.?\W*$", lambda letters: letters[1].replace(".", ""), text)  # "U.S.A."
    text = re.sub(r"(?<=[a-z]{2})-(?=[a-z]{2})", " ", text)
    text = re.sub(r"(?<=[a-z])\.(?= )|(?<=\b[a-z])\.(?=[a-z])", " ", text)  # "Dr. Smith", "J.R.R. Tolkien"
    text = " ".join(text.split()).strip(" \"'`*_.,;:!?¡¿$“”")
    text = re.sub(r"^(\d+) to (\d+)$", r"\1:\2", text)  # a ratio
    text = re.sub(r"\bunited states of america\b|^(?:the )?usa?$", "united states", text)
    return re.sub(rf"^(?:(?:{_ARTICLES}|sir|dr|mr|mrs|ms|prof|professor) )+(?=.)|(?<=^infinitely many) solutions$"
                  r"|(?<=^no solution)s$", "", text)


def same_text(given: str, expected: str, tolerance: float = 0.0) -> bool:
    """Whether an answer says the expected text: as a whole, or as what its first or only sentence says.

    >>> same_text("The capital of France is Paris.", "Paris"), same_text("It is not Paris.", "Paris")
    (True, False)
    """
    if normalise_text(given) == normalise_text(expected):
        return True
    if len(given) > MAX_CHARACTERS or len(expected) > MAX_CHARACTERS:
        return False
    return any(_same(variant, wanted, tolerance) for wanted in _expected(expected) for variant in variants(given))


def _in_formulas(sentence: str) -> Iterator[str]:
    """What a sentence says in its only formula, or in several side by side: "The solutions are $x = 2$ and $x = 3$"."""
    formulas = [*_FORMULA.finditer(sentence)]
    between = [sentence[before.end():after.start()].strip() for before, after in pairwise(formulas)]
    if formulas and all(joiner in (",", "and", "or", ", and", ", or") for joiner in between) and not _COUNTED_ON.match(
            sentence, formulas[-1].end()):
        listed, behind = ", ".join(formula[1] or formula[2] for formula in formulas), sentence[formulas[-1].end():]
        unit = read_unit(behind.strip(" ."))
        yield f"{listed} {behind.strip(' .')}" if unit is not None and unit.measure else listed
    elif formulas and "\\pm" in formulas[-1][0]:
        yield formulas[-1][1] or formulas[-1][2]


def _expected(text: str) -> Iterator[str]:
    yield text
    # "(B) Paris" is answered by its letter and by its text.
    if choice := _CHOICE.match(text):
        yield text[choice.end():]
        yield choice[1] or choice[2]


def variants(given: str) -> Iterator[str]:
    """What a text may mean as an answer, from the whole of it to what its sentence says last."""
    yield given
    given = _HALF_SAID.sub(lambda half: f"{half[1]} {'am' if half[2] else 'pm'}", full_hours(given))
    if (choice := _CHOICE.match(without_markup(given))) and not HEDGED.search(given):
        yield without_markup(given)[choice.end():]
    statements = sentences(given.strip())
    if len(statements) != 1 and len({normalise_text(sentence) for sentence in statements}) != 1:
        return
    sentence = _LED_IN.sub("", without_reason(corrected(statements[0])))
    sentence = _SOLUTIONS.sub(lambda first: f"{first[0][:-2]},", sentence)
    yield sentence
    sentence = _ROUNDED.sub("", sentence)
    sentence = _CONCEDED.sub("", _BELIEVED.sub("", sentence, count=1))
    led = without_lead(sentence)
    # "In 10 days it is Friday, and …": what "and" follows leads to nothing.
    sentence = _SAME_AGAIN.sub("", sentence if " would " in sentence or led.startswith(("and ", "but ")) else led)
    yield from _QUOTED_LAST.findall(sentence)
    if HEDGED.search(sentence):
        return
    yield re.sub(r"\s*\([^()]*\)\s*$", "", sentence)
    yield from _in_formulas(sentence)
    concluded = last_clause(sentence)
    yield concluded
    yield from _in_formulas(concluded)
    yield from _MEASURED.findall(sentence)
    yield from _CANNOT_BE.findall(sentence)
    yield from ["no solution"] * bool(_NO_SOLUTION.search(sentence))
    for part in dict.fromkeys((_I_E.split(sentence)[0], sentence)):
        yield from _times(part)
    sentence = _REMARK_BEHIND.sub("", sentence)
    if bold := re.findall(r"\*\*([^*]+)\*\*", sentence):
        between = re.split(r"\*\*[^*]+\*\*", sentence)[1:-1]
        if all(re.fullmatch(r"[\s,]*(?:and)?\s*", joiner) for joiner in between):
            yield _REMARK_BEHIND.sub("", ", ".join(bold))
    sentence, *same = _I_E.split(sentence)
    yield from same
    copulas = [*_COPULA.finditer(sentence)]
    if copulas and not _SECOND_SUBJECT.search(sentence, copulas[0].end(), copulas[-1].start()):
        yield _PREPOSITION.sub("", sentence[copulas[-1].end():])
        if named := _NAMED_FORMULA.fullmatch(sentence, copulas[-1].end()):
            yield named[1]
        yield re.sub(r"\s\([^()]*\)$", "", re.split(r",\s(?:an?|the)\s", sentence[copulas[-1].end():])[0])
    yield re.split(r":\W{0,3}\s", sentence)[-1]
    yield _REMARK_BEHIND.sub("", re.split(r",\s(?:an?|the|which|who|at|with|followed by)\s", sentence)[0])
    yield from _LARGER.findall(sentence)
    if passive := _PASSIVE.search(sentence):
        yield sentence[passive.end():]
        yield _WHO.sub("", _WHEN.sub("", sentence[passive.end():]))
    if (subject := _SUBJECT.match(sentence)) and not _SECOND_CLAUSE.search(_QUOTED.sub("", sentence)):
        yield subject[0]
    yield _PREPOSITION.sub("", normalise_text(sentence))


def _times(sentence: str) -> Iterator[str]:
    """The time of a clock, the time that something lasts, and the date that a sentence says."""
    times = _TIME.findall(sentence)
    same = {_half_of_day("".join(normalise_text(each).split())).rstrip("apm") for each in times}
    if times and (len(same) == 1 or re.search(rf"(?:\bat|\bis|\bit['’]s|\b(?:us|you|get|gets|up|comes) to|="
                                               rf"|\d)\s+\(?{re.escape(times[-1])}\W*$", sentence)):
        yield times[-1]
    if lasting := _LASTING.search(sentence):
        yield lasting[0]
    if len(dates := [*DATE.finditer(sentence)]) == 1:
        yield dates[0][0]
    if len(sizes := _SIZE.findall(sentence)) == 1 and "=" not in sentence:
        yield sizes[0]
    if last_day := LAST_DAY.search(sentence):
        yield last_day[1]


def _same(given: str, expected: str, tolerance: float) -> bool:
    given, expected = spelt_alike(given, expected)
    if not given:
        return False
    if _unpaired(normalise_text(given)) == _unpaired(normalise_text(expected)):
        return True
    if (given_measures := measures(given)) and (expected_measures := measures(expected)):
        return len(given_measures) == len(expected_measures) and all(
            map(equal_numbers, given_measures, expected_measures))
    if (seconds := lasting_seconds(given)) and COMPOUND.fullmatch(expected):
        return seconds == lasting_seconds(expected)
    if not (is_mathematics(given) or is_mathematics(expected)):
        return _same_parts(given, expected, tolerance)
    if _TIME.fullmatch(given) and _TIME.fullmatch(expected):
        time, expected_time = ("".join(normalise_text(text).split()) for text in (given, expected))
        if time.endswith("m") != expected_time.endswith("m"):
            time, expected_time = _half_of_day(time), _half_of_day(expected_time)
        # Where only one of them says which half of the day it is, the other means it.
        return time == expected_time or (time.endswith("m") != expected_time.endswith("m")
                                         and time.rstrip("apm") == expected_time.rstrip("apm"))
    (formula, unit), (expected_formula, expected_unit) = without_unit(value_of(given, expected)), without_unit(expected)
    if not same_units(unit, expected_unit):
        return False
    form, expected_form = (_BRACKETED.sub(lambda sum_: "".join(_terms(sum_[0])) or sum_[0], normal_form(text))
                           for text in (formula, expected_formula))
    if form == expected_form or _factors(form) == _factors(expected_form) != [] or (
            _terms(form) == _terms(expected_form) != []):
        return bool(form)
    # "y = 2x+3" for "2x+3": the name on the left says nothing, where only one side has it.
    if bool(_NAME_BEFORE.match(form)) != bool(_NAME_BEFORE.match(expected_form)) and (
            _NAME_BEFORE.sub("", form) == _NAME_BEFORE.sub("", expected_form)):
        return True
    return _same_parts(plain(formula.strip("$ ")), plain(expected_formula.strip("$ ")), tolerance)


def _half_of_day(time: str) -> str:
    """`22:05` as ``10:05pm``; `05:00` as ``5:00am``; a time that names its half, or does not tell, as it is."""
    if re.fullmatch(r"0\d:\d\d", time):
        return f"{time[1:]}am"
    hour, _, minutes = time.partition(":")
    return f"{int(hour) - 12}:{minutes}pm" if time[-1:].isdigit() and 12 < int(hour) < 24 else time


def value_of(given: str, expected: str) -> str:
    """The side of an equation that answers where no equation is expected: "f'(x) = 3x^2 ≈ …" says 3x^2."""
    if _SEVERAL.match(given):
        return given
    if not _ARROW.search(expected):
        given = _ARROW.split(given)[-1]
    if "=" in expected or "≈" in expected:
        return given
    exact = re.split(r"≈|\\approx(?![a-z])", given, maxsplit=1)[0]
    exact = given if _LETTER.fullmatch(exact.strip(" $")) else exact  # "x ≈ 3"
    left, equals, right = exact.rpartition("=")
    if not equals:
        return exact
    # "x^2 + 3x = x(x + 3)" is the same in other words where one side is a product and the other a sum.
    rewritten = (_FACTORS.fullmatch(normal_form(left)) is None) != (_FACTORS.fullmatch(normal_form(right)) is None)
    # So is a sum of fewer terms, of the same letters: "2x + 3x - 4 = 5x - 4".
    letters, others = (set(_LETTER.findall(side)) for side in (left, right))
    simplified = letters == others != set() and len(_TERM.findall(left)) > len(_TERM.findall(right)) > 1
    divided = letters == others != set() and _DIVIDED.search(left) and not _DIVIDED.search(right)
    return right if names_a_value(plain(_MATRIX.sub(" ", left))) or rewritten or simplified or divided else given


def _factors(formula: str) -> list[str]:
    """What stands before a product of brackets, and these in one order; empty for anything else."""
    product = _FACTORS.fullmatch(formula)
    return [product[1], *sorted(re.findall(r"\([^()]+\)(?:\^\d)?", product[2]))] if product else []


def _terms(formula: str) -> list[str]:
    """The terms of a sum with their signs, in one order; empty for anything else."""
    if len(formula) > MAX_FORMULA or re.search(r"[,;=<>≤≥≈±|]|\\pm", formula):
        return []
    terms, depth = [""], 0
    for character in formula:
        depth += (character in "([{") - (character in ")]}")
        if character in "+-" and depth == 0 and terms[-1] and terms[-1][-1] not in "^*/+-":
            terms.append("")
        terms[-1] += character
    return sorted(term if term[:1] in "+-" else f"+{term}" for term in terms) if len(terms) > 1 else []


def without_unit(text: str) -> tuple[str, MeasureUnit]:
    r"""A formula and the measure behind it: "36π cm^2", "\pi/4 radians"; "units" say nothing."""
    parts = _FORMULA_WITH_UNIT.fullmatch(re.sub(r"(?<!\\)\$", "", signs(text)).strip())
    if parts is None:
        return text, NO_UNIT
    words = parts[2] or parts[3] + (parts[4] or "").replace("{", "").replace("}", "")
    if words.rstrip("^23 ").endswith("units"):
        return parts[1], NO_UNIT
    unit = read_unit(words.strip())
    return (parts[1], unit) if unit is not None and (unit.measure or parts[3]) else (text, NO_UNIT)


def _unpaired(text: str) -> str:
    """A text without one pair of brackets around it: "(Paris)" is Paris; a pair of numbers keeps its brackets."""
    if len(text) > 2 and _PAIRS.get(text[0]) == text[-1] and not re.search(r"[,;(\[{]", text[1:-1]):
        return text[1:-1]
    return text


def _same_parts(given: str, expected: str, tolerance: float) -> bool:
    """Lists and sets by their parts in any order; tuples and intervals in theirs."""
    given_inner, given_brackets = without_brackets(given)
    expected_inner, expected_brackets = without_brackets(expected)
    # A set may be written without its braces.
    if given_brackets != expected_brackets and {given_brackets, expected_brackets} != {"", "{}"}:
        return False
    given_parts = _parts(given_inner, words=not given_brackets)
    expected_parts = _parts(expected_inner, words=not expected_brackets)
    if not 2 <= len(given_parts) == len(expected_parts) <= MAX_PARTS:
        return False
    if given_brackets and given_brackets[0] in "([":
        return all(_same_part(a, b, tolerance) for a, b in zip(given_parts, expected_parts, strict=True))
    for part in given_parts:
        match = next((index for index, candidate in enumerate(expected_parts)
                      if _same_part(part, candidate, tolerance)), None)
        if match is None:
            return False
        del expected_parts[match]
    return True


def without_brackets(text: str) -> tuple[str, str]:
    """The inside of brackets around a whole text, and the brackets; or the text and ""."""
    text = text.strip().strip("$. ").replace("\\{", "{").replace("\\}", "}").strip()
    if len(text) < 2 or text[0] not in "([{" or text[-1] not in ")]}":
        return text, ""
    depth = 0
    for index, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and index < len(text) - 1:  # "(1,2), (3,4)"
            return text, ""
    return text[1:-1], text[0] + text[-1]


def _parts(text: str, *, words: bool) -> list[str]:
    if words:
        text = re.sub(r",?\s+(?:and|or)\s+", ", ", text)
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character in ",;" and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]


def _same_part(given: str, expected: str, tolerance: float) -> bool:
    given_number, expected_number = parse_number(given), parse_number(expected)
    if given_number is not None and expected_number is not None:
        return equal_numbers(given_number, expected_number, tolerance)
    if normalise_text(given) == normalise_text(expected):
        return True
    given_form, expected_form = normal_form(given), normal_form(expected)
    return given_form == expected_form or (
        bool(_NAME_BEFORE.match(given_form)) != bool(_NAME_BEFORE.match(expected_form))
        and _NAME_BEFORE.sub("", given_form) == _NAME_BEFORE.sub("", expected_form))
