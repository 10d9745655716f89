"""Whether a sentence says a result at all. In doubt it does not, and then none of its numbers is the answer.

A number may stand in a question, a guess, a supposition, a plan, a refusal or the message of an error; it may be the
bound of something, or the name of a chapter. None of that is what the text answers.
"""

import re
from functools import lru_cache

from workings.answers.main_clause import VERBS_ELSEWHERE, VERBS_OF_RESULT
from workings.answers.question_words import telling_words
from workings.answers.sentences import ASKED_BACK, is_conclusion, without_reason

_GUESS = (r"might|maybe|perhaps|possibly|(?:could|may) (?:also |still |even )?be(?=\s\W{0,3}(?:\d|[A-J]\b))"
          r"|(?:could|may|might) be (?:possible|right|correct|true)|could it|not (?:\w+ )?sure|unsure|unclear"
          r"|(?:i|i'd|i would|my) guess|hard to (?:say|tell)|unlikely"
          r"|depend(?:s|ing) on|(?:may|might|could) claim|for (?:example|instance)|could (?:\w+ )?estimate"
          r"|wouldn['’]t say|either \W{0,3}[\d.,]+(?:\s[^\W\d]+)? or \W{0,3}\d")
_TO_ANSWER = (r"(?:\w+ly )?(?:be\b|answer|solve|determine|tell|say|calculate|compute|find|give|provide|help|assist"
              r"|access|see|know|proceed|continue|complete|work|verify|confirm|make|generate|fulfill|process)")
_REFUSAL = (rf"(?:cannot|can['’]t|unable to|(?:not|im)possible to|not able to) {_TO_ANSWER}|(?:don['’]t|do not) know"
            r"|(?:not enough|insufficient) (?:information|data)|insufficient data|(?:more information"
            r"|need\b[^.]{0,80}) to (?:answer|solve|determine|tell|say|calculate)|need(?:ed)? more information"
            r"|(?:question|problem|text|it) (?:does not|doesn['’]t) (?:say|tell|state|specify|mention)"
            r"|please (?:provide|give|specify|clarify|share)|as an ai\b|i can only|undefined|does not exist"
            r"|no (?:real |integer |such )?(?:solutions?|answer)|infinitely many"
            r"|(?:[^\W\d]+\s[^\W\d]+|it|that|which)\s(?:is|are) (?:missing|illegible|unknown)(?!\s\W{0,3}\d)"
            r"|(?:question|problem|text|passage|exercise) (?:says|states|mentions|tells|gives|asks|speaks)")
_FAILURE = (r"traceback|timed out|out of memory|(?:connection|request) (?:was )?(?:refused|reset|failed)|server error"
            r"|too many requests|rate limit|quota (?:was |is )?exceeded|exceeded \w+ \w* ?quota"
            r"|(?:error|status)(?: code)?\s?[:(#]?\s?\d|try again (?:in|later|after)"
            r"|max_tokens")
_FAILED = re.compile(rf"\b(?:{_FAILURE})\b|^\W*(?:error|exception|http)\b|\b\w+(?:error|exception)\b[:\s]",
                     re.IGNORECASE)
_NOTHING_SAID = re.compile(rf"\b(?:{_GUESS}|{_REFUSAL})\b", re.IGNORECASE)
_THEN = r"^\W*(?:(?:now|so|first|next|then)\W+)?"
_SUPPOSED = re.compile(rf"{_THEN}(?:suppose|assume|imagine|(?:let'?s|let us) (?:say|assume|suppose)|consider"
                       r"|take \w{1,2} =|say there|let (?!us\b)\w{1,2})\b", re.IGNORECASE)
_GIVEN = re.compile(rf"{_THEN}(?:assuming|given(?=:)|we (?:know|are (?:given|told)))\b", re.IGNORECASE)
_CALCULATE = r"add|subtract|multiply|divide|substitute|plug"
_PLAN = re.compile(
    r"^\W*(?:(?:first|next|then|now|finally|step \d+)\W+)*(?:(?:we|i|you|let'?s|let us|let me)\s+)?"
    rf"(?:(?:(?:(?:need|have|want|are going) to |must |should |can |will |'ll )"
    rf"(?:{_CALCULATE}|compute|calculate|find|determine|solve|use|convert))|{_CALCULATE}"
    r"|(?<!we )(?<!i )(?<!you )(?:compute|calculate|determine|solve))\b(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_RESULT = re.compile(rf"[=≈]|\b(?:{VERBS_OF_RESULT}|obtain(?:ing)?|getting|results? in)\b", re.IGNORECASE)
_WOULD = re.compile(r"^\W*if\b|\b(?:would|if)\b|\b(?:s?he|it|they|you|we|i|there)['’]d\b"
                    r"|\binstead\b(?! of)|^\W*otherwise\b", re.IGNORECASE)
# "For three that would be 6": it goes on with what one needs.
_FOR_SEVERAL = re.compile(r"\W*(?:and )?for \w+,? (?:that|this|it) would be\b", re.IGNORECASE)
_IF = re.compile(r"\bif\b", re.IGNORECASE)
_ASKED_BACK = re.compile(rf"\b{ASKED_BACK}\b", re.IGNORECASE)
_QUESTION = re.compile(r"\?\W*$")
_BOUND = re.compile(
    r"(?:(?:less|more|fewer|greater|larger|smaller|higher|lower) than|at (?:most|least)|(?<!add )(?<!adds )up to"
    r"|(?<!handed )(?<!hand )over|under|above|below"
    r"|beyond|except(?: for)?|limit of)\s\W{0,3}$", re.IGNORECASE)
# "She needs to sell at least 40": what is needed is asked for.
_NEEDED = re.compile(r"\b(?:needs?|must|requires?|ha(?:s|ve) to|should)\b[^.]{0,80}\bat least\s\W{0,3}$", re.IGNORECASE)
_NAMING = re.compile(r"\b(?:step|question|problem|exercise|example|phase|figure|equation|table|theorem)\s#?$",
                     re.IGNORECASE)
# Words that may begin a sentence and are followed by what it says; any other one is what the number names.
_MAY_PRECEDE = re.compile(
    "a|an|the|this|that|these|those|all|both|only|just|exactly|precisely|about|approximately|approx|around|nearly|almost"
    "|roughly|so|thus|hence|therefore|then|and|or|but|total|sum|answer|result|value|altogether|overall|minus|negative"
    "|plus|another|in|on|at|by|for|from|to|of|with|after|before|during|within|until|every|each|per|out|over|under"
    "|between|among|usd|eur|gbp|inr|us|rs|average|mean|final|yes|now|today|there|here|it|i|he|she|they|we|you"
    rf"|[a-z]+ed|{VERBS_OF_RESULT}|{VERBS_ELSEWHERE}", re.IGNORECASE)
_UNDECIDED = re.compile(
    r"(?:(?:\bnot|n['’]t) (?:\w+ ){0,2}enough|\binsufficient|\btoo little) (?:information|data)\b"
    r"(?: (?:is |are )?given| available| provided)?"
    r"|\b(?:can(?:no|['’])t|can not) be (?:determined|known|told|calculated|found|inferred|decided|concluded"
    r"|computed)\b"
    r"|\b(?:cannot|can not|can['’]t|(?:impossible|not possible) to|no way (?:to|of)) "
    r"(?:determine|tell|know|calculat|infer|decide|conclude|say for)\w*\b"
    r"|\b(?:undetermined|indeterminate|undecidable)\b", re.IGNORECASE)
# "It has no real solutions, so the number of solutions is 0."
_COUNTS = re.compile(r"^.*\bthe number of (?=[^,;.]* (?:is|equals)\b)", re.IGNORECASE | re.MULTILINE)
_SAYS_MORE = re.compile(r"\b(?:but|however|although|though|so|if|unless|assuming|except|without|probably|perhaps|maybe"
                        r"|might|could|estimate|guess)\b", re.IGNORECASE)


def is_undecided(sentence: str, *, alone: bool = False) -> bool:
    """Whether a sentence says that what is asked cannot be told, and gives no answer; ``alone``: it says nothing else.

    >>> is_undecided("So his age can't be determined."), is_undecided("We cannot tell, but it is probably 10.")
    (True, False)
    """
    undecided = _UNDECIDED.search(sentence)
    if undecided is None:
        return False
    if alone:
        return not re.search(r"\w", sentence[:undecided.start()] + sentence[undecided.end():])
    return _SAYS_MORE.search(sentence[undecided.end():]) is None


@lru_cache(maxsize=64)
def states_no_result(sentence: str) -> bool:
    """Whether a sentence guesses, refuses or reports a failure, so that none of its numbers is a result."""
    sentence = _COUNTS.sub("", sentence, count=1)
    return _NOTHING_SAID.search(sentence) is not None or is_failure(sentence)


def is_failure(line: str) -> bool:
    """Whether a line is the message of an error."""
    return _FAILED.search(line) is not None


def is_question(sentence: str) -> bool:
    """Whether a sentence asks."""
    return _QUESTION.search(sentence) is not None and "=" not in sentence


def asks_back(sentence: str) -> bool:
    """Whether a sentence asks for more than the question said."""
    return _ASKED_BACK.search(sentence) is not None


def supposes_or_plans(part: str) -> bool:
    """Whether a part of a sentence supposes something, or says what will be calculated and not what comes out."""
    if _SUPPOSED.match(part) or (_GIVEN.match(part) and "=" not in part):
        return True
    plan = _PLAN.match(part)
    return plan is not None and not _RESULT.search(plan["rest"])


def is_supposition(sentence: str, question: str) -> bool:
    """Whether a sentence says what would be: behind one that says what is, it is a remark.

    None where the question supposes the same.
    """
    supposed = telling_words(_IF.sub("", sentence.partition(",")[0])) if _IF.match(sentence) else []
    if supposed and _IF.search(question) and set(supposed) <= set(telling_words(question)):
        return False
    return _WOULD.search(without_reason(sentence)) is not None and "=" not in sentence and not (
        is_conclusion(sentence) or _FOR_SEVERAL.match(sentence))


def is_bound(before: str) -> bool:
    """Whether a number behind this text is the bound of something and no value: "more than 3", "at most 3"."""
    return _BOUND.search(before) is not None and not is_needed(before)


def is_needed(before: str) -> bool:
    """Whether a number behind this text is the least that is needed, which is then what was asked for."""
    return _NEEDED.search(before) is not None


def is_name(before: str) -> bool:
    """Whether a number behind this text names something: "Chapter 3", "See Table 2", "step 4"."""
    if _NAMING.search(before):
        return True
    words = re.findall(r"[^\W\d_]+", before)
    if not words or not re.search(r"[^\W\d_]\s$", before) or not words[-1].isascii():
        return False
    word = words[-1]
    begins = len(words) == 1 or re.search(rf"[.:;(\[\"“]\s*{re.escape(word)}\s$", before) is not None
    return (begins or word[0].isupper()) and len(word) > 1 and not _MAY_PRECEDE.fullmatch(word)
