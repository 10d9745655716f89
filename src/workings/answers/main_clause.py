"""The part of a sentence that says its number: without reason, brackets, what leads to it, and what is said twice."""

import re
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from workings.answers.sentences import IN_TOTAL, VERBS_OF_CONCLUSION, is_conclusion, without_reason

VERBS_OF_RESULT = (r"is|are|was|were|be|equals?|makes?|made|gives?|get|gets|has|have|had|cost|costs|earn"
                    r"|earns|earned|pays?|paid|leaves?|leaving"
                    r"|totals?|totaling|totalling|making|giving|yielding|yields|becomes|spent|saved?")
"""Verbs whose object is a result, as an alternative of a pattern."""
VERBS_OF_CHANGE = ("(?:(?:increas|decreas|reduc|chang|rais|exceed|differ|lower|drop|shrink|grow)[a-z]*"
                   "|ris(?:es?|en|ing)|rose|grew|fall(?:s|en)?|fell"
                   "|shrank|off|short|ahead|behind|loses?|lost|wins?|won|go(?:es)? (?:up|down)|went (?:up|down))")
"""Verbs that say by how much something changes, as an alternative of a pattern."""
VERBS_ELSEWHERE = ("ist|sind|betragt|hat|haben|kostet|kosten|braucht|brauchen|bezahlt|es|son|tiene|tienen|hay|queda"
                   "|quedan|cuesta|cuestan|est|sont|ont|reste|restent|coute|coutent|e|sono|ha|hanno|costano|sao|tem"
                   "|restam|custa|custam|bleibt|bleiben|ergibt|ergeben|macht|fait|font|rimangono|restano")
"""What "is", "has", "remain" and "cost" are in German, Spanish, French, Italian and Portuguese, without accents."""
_LEAD = re.compile(r"^(?:(?:so|thus|therefore|hence|and|then|now|finally|however)?,?\s*)(?P<lead>after|in|for|if"
                   r"|when|since|because|with|given|on|at"
                   r"|from|to|as|during|over|within|by|out of|of|among|once|unlike|while|although|though|instead of"
                   r"|because of)\b(?:[^,:]|,(?=\d))*,\s+(?=\D)(?!(?P=lead)\b|or\b)",
                   re.IGNORECASE)
# Of what a part is taken, which is worked out behind it: "80% of $50, which is $40".
_PART = r"(?:half|thirds?|quarters?|fourths?|fifths?|\d/\d{1,3}|\d[\d.]{0,5}\s?%|times|twice|double)\s(?:of\s)?"
# Up to the comma behind a clause; one within a number ends none.
_TO_COMMA = r"(?:[^,;=]|,(?=\d))*,"
_CLAUSE = re.compile(r"\b(?:and|but|so) (?:since|because|as|if)\b[^,]*,"
                     r"|(?:[,;:]|\.\.\.|…|\s[-–—])\s*(?:and\s)?(?:so|therefore|thus|hence|meaning(?: that)?|then"
                     r"|(?:no )?wait|giving|leaving(?: [a-z]+ with)?|ending up with|in total|altogether"
                     rf"|which {VERBS_OF_CONCLUSION}"
                     rf"|which is(?={IN_TOTAL})|and the (?:final )?answer)\b"
                     rf"|\b{_PART}{_TO_COMMA} which (?:is|was|will be)\b(?=\s\W{{0,3}}\d)"
                     # Nor is what comes of a rate: "$4 on each of the 40 bags, which is $160."
                     rf"|\b(?:each|every|per)\b{_TO_COMMA} which (?:is|was)\b"
                     r"(?=\s\W{0,3}\d[\d,.]*(?:\s[^\W\d_]+)?\W*$)"
                     rf"|\b\d+ (?:out )?of {_TO_COMMA} which (?:is|was)\b(?=\s\W{{0,3}}\d[\d.]*\s?(?:%|percent)\W*$)"
                     r"|(?:\.\.\.|…|[,;])\s*simplifying(?: further)? (?:gives|yields)\b"
                     # "3 × 4 = 12, plus 5 is 17": the arithmetic goes on in words.
                     r"|=[^=,;]*,\s(?:and\s|then\s)?(?:plus|minus|times|multiplied by|divided by|twice|half of)\b"
                     rf"[^=,;]*?\b(?:{VERBS_OF_RESULT})\b(?=\s\W{{0,3}}\d)"
                     # "15/8 = 1.875 so they need 2", "0.25 which means 25%": behind a number it needs no comma.
                     r"|(?<=\d)(?:\s?[^\W\d_]+)?\s(?:so(?!\s(?:that|many|much|far|on)\b)|which means)\b"
                     r"|\band (?:this|that) means\b"
                     # "With a = 3 and b = -7 this gives 7/3".
                     r"|(?<=\d),? (?:this|that) (?:gives|yields)\b"
                     r"|\b(?=(?:we|you) (?:get|obtain|end up with)\b)", re.IGNORECASE)
_SUPPOSES = re.compile(r"^\W*(?:if|had|when|suppose)\b", re.IGNORECASE)
# "Paris – no, sorry, Rome": what is said before it is taken back.
_CORRECTION = re.compile(r"(?:[,;.…]|\s[-–—]|—)\s*(?:(?:oh|hmm),?\s)?(?:no,\s(?:wait|sorry|actually)|wait,?\sno|sorry"
                         r"|correction|oops|I meant?|no(?=,\s(?:that|it) (?:was|is)\b))\b\s?[,:–—-]?\s", re.IGNORECASE)
# Brackets that say more about a number; a pair of numbers is no remark.
_BRACKETS = re.compile(r"(?<=[\w*%. ])\((?!\s*-?[\d./]+\s*(?:,\s*-?[\d./]+\s*)+\))[^()]*\)")
# "1/6, or about 16.7%": the same once more.
_RESTATED = re.compile(r"(?<=\d),?\s+or\s+(?:about|approximately|roughly|around)\b.*"
                       r"|(?<=\d),\sor\s[\d ./%]+\sas\san?\s(?:mixed number|decimal|fraction|percentage)\b.*"
                       # "$2,088 over the 4 weeks, or $522 per week".
                       r"|, or \W{0,3}\d[\d,.]* (?:[^\W\d_]+ )?(?:per|each|every|an?) [^\W\d_]+\W*$")
# "9 marbles left after giving away 15", "5 yards of cloth to make 8 napkins": when, how and for what.
_TRAIL = re.compile(
    r"(?<=\w|\*)\s(?:(?:if|when|unless)\s(?:\w+\s){0,3}[a-z]+"
    r"|(?:after|before|by|from|when|while|for|without|instead of)\s(?:\w+ly\s)?[a-z]{2,}ing"
    r"|(?<!\bneeds )(?<!\bneed )(?<!\bhas )(?<!\bhave )(?<!\bhad )(?<!\bwants )(?<!\bable )(?<!\bgoing )(?<!\bup )"
    r"(?<!\bdown )(?<!\bequal )(?<!\bdecides )(?<!\bplans )to\s(?!be\b|the\b|an?\b)[a-z]{2,})"
    r"\s[^,;:=]*(?=[,;.]\s|\W*$)")
# "So they need 4 buses: 3 full ones and …": what follows the colon is of what the number is made.
_COUNTED = re.compile(rf"\b(?:{VERBS_OF_RESULT}|needs?|takes?|there are)(?: (?:only|exactly|about))? \W{{0,3}}"
                      r"\d[\d,.]*\W{0,3}\s[^:=\d]{2,60}$", re.IGNORECASE)
_RELATIVE = re.compile(r"^(\W*[^,;:=\d]{2,60}), (?:which|who|whose)\s[^,;:=]*, (?!and\b|but\b|so\b|which\b|who\b)")
_CLAUSE_OF_ITS_OWN = re.compile(r"(?:s?he|it|they|we|you|the|her|his|its|their)\s")
_ITEM = re.compile(r",\s(?:and\s)?|\sand\s")
_DIGITS = re.compile(r"\d[\d,]{0,20}(?:\.\d{1,20})?")


def main_clause(sentence: str, says_number: Callable[[str], bool]) -> str:
    """A sentence cut down as far as what is left says a number."""
    for cut in (lambda text: last_clause(text) or text, without_reason, lambda text: _BRACKETS.sub(" ", text),
                without_lead, _without_trail,
                lambda text: _RESTATED.sub("", text), _without_details):
        shorter = cut(sentence)
        # Asking takes time for every number, and most cuts take nothing away.
        if shorter != sentence and says_number(shorter):
            sentence = shorter
    return sentence


def corrected(sentence: str) -> str:
    """What a sentence says behind its last correction; the whole of it where it corrects nothing.

    >>> corrected("It was Paris – no, sorry, it was Rome.")
    'it was Rome.'
    """
    return sentence[max((each.end() for each in _CORRECTION.finditer(sentence)), default=0):]


@lru_cache(maxsize=64)
def last_clause(sentence: str) -> str:
    """What a sentence concludes behind its last "so", "which gives" or the like; empty where it does nowhere."""
    supposes = _SUPPOSES.match(sentence) is not None  # "If you add, you get 12" concludes nothing
    begin = max((clause.end() for clause in _CLAUSE.finditer(sentence) if clause.group() or not supposes), default=0)
    return sentence[begin:] if begin else ""


def without_lead(sentence: str) -> str:
    """A sentence without the clause that leads to it: "After 3 days, …", "If today is Tuesday, …"."""
    return _LEAD.sub("", sentence, count=1)


def without_relative_clause(sentence: str) -> str:
    """A sentence without what it says of its subject between commas: "The wall, which stood for 28 years, fell …"."""
    return _RELATIVE.sub(r"\1 ", sentence, count=1)


def _without_trail(sentence: str) -> str:
    for trail in _TRAIL.finditer(sentence):
        before = sentence[:trail.start()]
        if any(map(str.isdigit, before)) and any(map(str.isdigit, trail.group())):
            return before + sentence[trail.end():]
    return sentence


def _adds_up(head: str, parts: str) -> bool:
    """Whether the last number before a colon is the sum of those behind it, which are then its parts."""
    whole, values = ([Fraction(number.replace(",", "")) for number in _DIGITS.findall(text)] for text in (head, parts))
    return len(values) > 1 and "=" not in parts and whole[-1:] == [sum(values)]


def _counts_up(head: str, parts: str) -> bool:
    """Whether so many things stand behind a colon as a number before it says: "There are 3 primes: 2, 3 and 5"."""
    items = [item for item in _ITEM.split(parts) if item.strip(" .*")]
    return len(items) > 1 and str(len(items)) in _DIGITS.findall(head)


def _explains(head: str, parts: str) -> bool:
    """Whether a clause behind a colon says why: "She loses $11: she gets back $24 of her $32 and pays $3"."""
    said = _DIGITS.findall(head)
    return _CLAUSE_OF_ITS_OWN.match(parts) is not None and bool(said) and said[-1] not in _DIGITS.findall(parts)


def _without_details(sentence: str) -> str:
    main, _, details = sentence.partition("; ")
    if re.search(r"\bwould\b", details):
        return main
    head, colon, parts = main.partition(": ")
    if colon and (_adds_up(head, parts) or _counts_up(head, parts) or _explains(head, parts)):
        return head
    if not is_conclusion(head):
        return sentence
    return head if colon and _COUNTED.search(head) else main
