"""Whether a sentence that concludes nothing still says a number: alone, as what its verb says, or as its subject.

English has few words that take a number as their object and are no verbs by their form: the irregular past forms are a
closed class, other verbs end in -ed or -s, or stand behind a pronoun, "to" or an auxiliary. A number behind a noun
("page 30", "code 500"), behind an article ("the 30 wagons") or in a subordinate clause is spoken of and not said.
"""

import re
import unicodedata
from functools import lru_cache

from workings.answers.main_clause import VERBS_ELSEWHERE, VERBS_OF_CHANGE, VERBS_OF_RESULT

VERBS_OF_THE_PAST = (
    "arose|ate|awoke|beat|became|began|bent|bit|bled|blew|bore|bought|bound|bred|broke|brought|built|burst|came|cast"
    "|caught|chose|clung|crept|cut|dealt|did|drank|drew|drove|dug|fed|fell|felt|fled|flew|flung|forgave|forgot|fought"
    "|found|froze|gave|got|grew|ground|had|heard|held|hid|hit|hung|hurt|kept|knelt|knew|laid|lay|leapt|learnt|led"
    "|left|lent|lit|lost|made|meant|met|mistook|overcame|paid|put|ran|rang|read|rid|rode|rose|sang|sank|sat|saw|sent"
    "|set|shone|shook|shot|shrank|shut|slept|slid|slung|sold|sought|spat|spent|split|spoke|sprang|spread|spun|stank"
    "|stole|stood|strode|strove|struck|stuck|stung|swam|swept|swore|swung|taught|thought|threw|thrust|told|took|tore"
    "|trod|understood|undertook|went|wept|withdrew|withstood|woke|won|wore|wound|wove|wrote|wrung")
"""Irregular past forms, as an alternative of a pattern."""
_AUXILIARY = "will|can|must|should|would|could|to|they|we|you|i|ll|ve|has|have|had|did|does|do|not"
_NO_VERB = "(?:the|an?|this|that|these|those|all|both|his|her|its|their|our|my|your|each|every)"
_BASE = ("born|bring(?: in)?|earn|make|give|get|produce|equal|fill|fit|form|cover"
         "|total|need|take|come|amount|remain|cost|weigh|last|eat|sell|buy|use|hold|contain|collect|spend|drive|travel"
         "|walk|run|read|there (?:is|are|was|were|will be)")
_VERB = (rf"(?:end(?:s|ed) up [a-z]+ing|{VERBS_OF_RESULT}"
         rf"|{VERBS_OF_THE_PAST}|{_BASE}|{VERBS_ELSEWHERE}|[a-z]{{2,}}ed|[a-z]{{2,}}[a-rt-z]s"
         rf"|(?:{_AUXILIARY})\s(?:[a-z]+ly\s)?(?:be\s)?(?!{_NO_VERB}\b)[a-z]+)")
_FILLER = (r"(?:only|exactly|precisely|about|approximately|around|roughly|nearly|almost|just|now|still|already|then"
           r"|therefore|thus|another|additional|back|up|out|down|away|off|over|equal|in total|altogether|a total of|a"
           r"|an|at least|on average|size|number|floor|page|worth|as much as|to|with|at|donc|de|also"
           r"|danach|dann|nun|jetzt|noch|genau|etwa|maintenant|ahora|entonces|quindi|portanto|zusammen|insgesamt"
           r"|[a-z]+ly|him|her|them|us|me|it|each|the remaining|the other"
           r"|everyone|everybody|\w+self)")
_OF_NOUN = r"(?:the |a |an |its |her |his |their |our |my )?(?:[a-z]+\s){0,2}of"
_PRONOUN_IS = "(?:s?he|it|that|there|they|we|you|i)['’](?:s|re|m)"
_BEHIND_VERB = re.compile(rf"\b(?:{_VERB}|{_PRONOUN_IS}|{VERBS_OF_CHANGE}(?: [^ ]+){{0,4}} by)"
                          rf"(?:\s{_FILLER}){{0,4}}:?\s(?:{_OF_NOUN}\s)?\W{{0,3}}$",
                          re.IGNORECASE)
_RECEIVER = re.compile(r"\b(?:tak(?:e|es|ing)|took|costs?|gives?|gave|earns?|earned|pays?|paid|saves?|saved|leaves?"
                       r"|left|owes?|owed|lends?|lent|charges?|charged|sends?|sent|bezahlt|kostet)"
                       r"\s(?:[^\W\d_]+\s){1,3}\W{0,3}$", re.IGNORECASE)
_OPENING = re.compile(r"(?:^|[,;:.→]\**\s|\([A-J]\)\s|\b(?:and|so|then|that|thus|therefore|hence|only|exactly|about"
                      r"|nearly|almost|roughly|approximately|around)\s)[^\w\[#]{0,3}$", re.IGNORECASE)
_ALONE = re.compile(r"(?!\s(?:or|and|to|minus|plus|times)\b)(?:\s?[^\W\d_]+){0,4}[^\w(]*(?:$|[,;:(])")
_ORDINAL = re.compile(r"\d(?:st|nd|rd|th)$")
_AGAIN = re.compile(r",\s(?:or|i\.e\.|that is,?|namely)\s\W{0,3}$")
_SUBJECT_OF = re.compile(rf"(?:\s|%)(?:[^\W\d_]+(?:-[^\W\d_]+)?\s|of the (?:\w+\s)?\d*\s?|\W\s?){{0,6}}?{_VERB}\b",
                         re.IGNORECASE)
_CLAUSE = re.compile(r"\b(?:is|are|was|were|be|has|have|had|will|can|takes?|[a-z]{2,}(?:ed|[a-rt-z]s))\b|"
                     rf"\b(?:{VERBS_OF_THE_PAST})\b", re.IGNORECASE)
_TIME = re.compile(r"\b(?:after|in|at|within|for|on)\s\W{0,3}$", re.IGNORECASE)
_SUBORDINATE = re.compile(r"^\W*(?:if|when|whenever|unless|although|though|while|because|since|given|using|for"
                          r"|to \w+)\b[^,]*$", re.IGNORECASE)


def is_stated(sentence: str, start: int, end: int) -> bool:
    """Whether the number at this place of a sentence is what the sentence says."""
    before, behind = sentence[max(0, start - 120):start], sentence[end:end + 120]
    if _SUBORDINATE.match(sentence[:start]) and "," in behind:
        return False
    if not sentence.isascii() and re.search(r"[^\W\d_\u0000-\u024f]", sentence):  # another script
        return True
    return _is_said_between(before, behind, is_ordinal=_ORDINAL.search(sentence, max(0, end - 3), end) is not None)


@lru_cache(maxsize=64)
def _is_said_between(before: str, behind: str, *, is_ordinal: bool) -> bool:
    before = "".join(each for each in unicodedata.normalize("NFD", before) if not unicodedata.combining(each))
    if _BEHIND_VERB.search(before) or _RECEIVER.search(before) or _AGAIN.search(before):
        return True
    if _OPENING.search(before) or is_ordinal:
        return _ALONE.match(behind) is not None or _SUBJECT_OF.match(behind) is not None
    return _TIME.search(before) is not None and (_CLAUSE.search(before) is not None or len(before) < 10)
