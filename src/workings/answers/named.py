"""Whether a sentence answers with a name: the first one that its question does not say, or the one that it compares.

Words of the question choose: "Pacific" is the ocean that was asked for, "Albert Einstein" the physicist Einstein.
"""

import re

from workings.answers.sentences import sentences, without_markup
from workings.answers.texts import HEDGED, normalise_text

MAX_CHARACTERS = 400
"""A longer answer is an explanation."""
MIN_LETTERS, MIN_WORDS = 2, 3
"""Of a name, and of a question that chooses."""
_PERSON = re.compile(
    r"\b(?:who|whom|whose)\b|\b(?:which|what)\s(?:[a-z]+\s){0,3}?(?:physicist|scientist|chemist|biologist"
    r"|mathematician|astronomer|astronaut|inventor|engineer|explorer|author|writer|poet|playwright|painter|artist"
    r"|composer|musician|singer|actor|actress|director|president|king|queen|emperor|general|leader|philosopher"
    r"|player|person|man|woman)\b", re.IGNORECASE)
_PARTICLE = r"(?:da|de|del|della|di|la|le|van|von|der|den|bin|of|the)"
_NAME = re.compile(rf"[A-ZÀ-ÞĀ-Ž][\w.'’-]*(?:\s(?:{_PARTICLE}\s){{0,2}}[A-ZÀ-ÞĀ-Ž][\w.'’-]*)*")
# "the Spanish author": no name, where a common noun follows.
_NATIONAL = re.compile(r"[A-Z][a-z]+(?:ish|ese|ian|ean|can|ch|ek)(?=\s[a-z]{3})")
_BEGINS = re.compile("the|an?|its?|it's|this|that|these|those|in|on|at|by|for|from|of|to|as|one|his|her|their|s?he|they"
                     "|we|i|you|there|here|so|thus|therefore|yes|no|my|your|our|what|which|who")
# What says more about a name: "the largest city in Türkiye", "(Turkey)", "; it looks reddish", ", which …".
_MORE = re.compile(r"\s*(?:\([^()]*\)|,\s(?:the|an?|which|who|whose|where|and (?:is|was))\s.*"
                   r"|;\s(?:it|its|he|she|his|her|they|this)\s.*)", re.IGNORECASE | re.DOTALL)
# "Anna has more: …", "Ben is taller".
_COMPARES = re.compile(r"\W*(?:So,? |Therefore,? )?(?P<name>[A-Z][\w'’-]*(?:\s[A-Z][\w'’-]*)?)\s(?:[a-z]+\s){1,3}?"
                       r"(?P<how>more|less|fewer|most|least|fewest|[a-z]{2,}er|[a-z]{2,}est)\b[^:;,.]*")


def names_what_is_asked(given: str, expected: str, question: str) -> bool:
    """Whether an answer says the expected name, as far as its question tells.

    >>> names_what_is_asked("Pacific", "Pacific Ocean", "Which ocean is the largest?")
    True
    >>> names_what_is_asked("Mars is the red one; Venus is hotter.", "Venus", "Which planet is called red?")
    False
    """
    # Before anything is spelt alike: most expected answers are numbers.
    if not expected[:1].isupper() or any(map(str.isdigit, expected)) or len(given) > MAX_CHARACTERS:
        return False
    wanted, said = normalise_text(expected).split(), normalise_text(given).split()
    asked = set(re.findall(r"\w+", normalise_text(question)))
    # A letter is a choice, and one that is named may be one that is left out.
    if len("".join(wanted)) < MIN_LETTERS or len(asked) < MIN_WORDS:
        return False
    if _is_short_for(said, wanted, asked) or _is_short_for(wanted, said, asked):
        return True
    told = sentences(without_markup(given))
    if len(told) != 1 or re.search(r"\bwould\b", told[0]):
        return False
    if compared := _COMPARES.match(told[0]):
        return (compared["how"].casefold() in asked and not HEDGED.search(compared[0])
                and normalise_text(compared["name"]).split() == wanted)
    if HEDGED.search(told[0]):
        return False
    names = _unasked(_MORE.sub("", told[0]), asked)
    return len(names) == 1 and (names[0] == wanted or (
        _PERSON.search(question) is not None and _holds(names[0], wanted)))


def _is_short_for(short: list[str], long: list[str], asked: set[str]) -> bool:
    """Whether words are a name without words that the question says: the Pacific, where an ocean is asked for."""
    rest = [word for word in long if word not in short]
    return bool(short and rest) and _holds(long, short) and set(rest) <= asked and not set(short) <= asked


def _holds(words: list[str], some: list[str]) -> bool:
    return any(words[at:at + len(some)] == some for at in range(len(words) - len(some) + 1))


def _unasked(sentence: str, asked: set[str]) -> list[list[str]]:
    """The names in a sentence that its question does not say, as words."""
    sentence = _NATIONAL.sub(lambda word: word[0].lower(), sentence)
    found = []
    for name in _NAME.finditer(sentence):
        words = normalise_text(name[0]).split()
        if not name.start() and words and _BEGINS.fullmatch(words[0]):
            words = words[1:]
        if words and not set(words) <= asked:
            found.append(words)
    return found
