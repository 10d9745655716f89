"""Whether a number is only a circumstance of what a sentence says: "for 2 weeks", "after 3 days"."""

import re
from collections.abc import Sequence

from workings.answers.main_clause import VERBS_OF_CHANGE, VERBS_OF_RESULT
from workings.answers.question import NumberAt

CIRCUMSTANCE = re.compile(
    r"\b(?:for|per|after|over|within|every|each|from|than|during|through|across|among|between|using|at|if|when"
    r"|by|with|on|until|(?:hal(?:f|ves)|thirds?|quarters?|fourths?|fifths?|sixths?|eighths?|tenths?) of"
    r"|before|those|these|the|all|my|our|their|his|her|its|a|an|both|another|other|out of|\d+%? of|in"
    r"|to)\s+(?:[^\W\d_]+(?:['’]s?)?\s+){0,1}$|\bthan\s+(?:[^\W\d_]+(?:['’]s?)?\s+){2}$",
    re.IGNORECASE)
"""Prepositions before a number that make it a circumstance of the answer."""
_NO_CIRCUMSTANCE = re.compile(
    r"\b(?:(?:total|sum|average|mean|profit|loss|rate|amount|price|speed|distance|difference|result|answer"
    r"|number|product|maximum|minimum"
    r"|remainder|value|cost|all) of|(?:results?|resulted|resulting) in|(?:comes?|came|adds?|amounts?|equal"
    r"|equals|up|down|out|simplifies"
    rf"|rounds?|rounded|sums|evaluates) (?:to|at)|{VERBS_OF_CHANGE}(?: [^ ]+)? (?:to|by)|left with"
    r"|leaving \w+ with|end(?:s|ing)? up with"
    r"|(?<!for )(?<!in )(?<!of )(?<!on )(?<!with )(?<!by )the (?:remaining|other)"
    r"|(?:needs?|ha(?:s|ve|d)|wants?|able|going|likely|expected|supposed) to [a-z]+"
    rf"|remains? with|are left|to be|(?:the|a|an|her|his|their|my|our) (?:{VERBS_OF_RESULT})|(?:all|each|both"
    rf"|these|those|other)\s(?:{VERBS_OF_RESULT}))\s+$", re.IGNORECASE)
_PARTICIPLE = re.compile(r",\s+(?:\w+ly\s+)?(?!leaving|making|giving|total|yielding|bringing|costing|earning"
                         r"|saving|losing|gaining|being|having)[a-z]{2,}ing\s+(?:\w+\s+)?$", re.IGNORECASE)


def is_circumstance(before: str, earlier: Sequence[NumberAt]) -> bool:
    """Whether the number behind this text is a circumstance; ``earlier``: the numbers of the sentence before it."""
    # Each of the patterns asks for a word with white space behind it; a line of nothing but numbers has none.
    if not before[-1:].isspace() or not any(map(str.isalpha, before)):
        return False
    if _NO_CIRCUMSTANCE.search(before):
        return False
    if CIRCUMSTANCE.search(before) or _PARTICIPLE.search(before):
        return True
    # "on 3 books and 1 pen": what is joined to a circumstance is one.
    return bool(earlier and earlier[-1].circumstance and re.search(r"\d\s(?:[^\W\d_]+\s){0,3}(?:and|or)\s$", before))
