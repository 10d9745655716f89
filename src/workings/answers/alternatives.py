"""The one of two words that a question offers: "Answer with valid or invalid", "positive or negative?"."""

import re

from workings.answers.sentences import is_conclusion, last_lines, sentences

MAX_SENTENCES = 10
"""Last sentences of a text that are looked at."""
_OFFERED = re.compile(r"\b([A-Z]?[a-z]{2,20}) or ([a-z]{3,20})(?=\W*$|[?.:])")
_TRUE_OR_FALSE = re.compile(r"\W*(?:[a-z, ]{0,60}\b)?true or false\W+(?P<behind>\S.*?)[.?]?\W*"
                            r"|(?:statement:\s*)?(?P<before>.*?)[.?]\s+true or false\W*", re.IGNORECASE | re.DOTALL)
# What stands behind it says more, or something of another one.
_MORE = re.compile(r",?\s(?:even though|though|although|while|whereas|but|because|since|as|if|unless)\b|[;:(]",
                   re.IGNORECASE)
_DENIED = re.compile(r"(?:\b(?:not|never|hardly|far from)|n['’]t)\s(?:\w+\s){0,2}$", re.IGNORECASE)
_DOUBTS = re.compile(r"\b(?:might|may|maybe|perhaps|probably|possibly|could|would|whether|if|either|neither|nor|think"
                     r"|thought|seems?|some|many|most|people|depends)\b|\?", re.IGNORECASE)


def is_it_true(question: str) -> str:
    """A question whether a statement is true, for one that gives the statement; every other as it is.

    >>> is_it_true("True or false: Whales are fish."), is_it_true("Are whales fish?")
    ('Is it true that Whales are fish?', 'Are whales fish?')
    """
    given = _TRUE_OR_FALSE.fullmatch(question.strip())
    return f"Is it true that {given['behind'] or given['before']}?" if given else question


def alternative_said(text: str, question: str) -> str:
    """The word of the two that a question offers which a text says alone; a denied one as its opposite; or "".

    >>> alternative_said("It isn't valid, though its end is true.", "Answer with valid or invalid.")
    'invalid'
    >>> alternative_said("It may be valid.", "Answer with valid or invalid.")
    ''
    """
    offered = _OFFERED.search(question)
    if offered is None:
        return ""
    words = tuple(word.casefold() for word in offered.groups())
    # "no doubt" is no "no", and of "an odd number or even" nobody offers a number.
    if {"yes", "no", "number", "one", "more", "less"} & set(words):
        return ""
    told = [sentence for line in last_lines(text) for sentence in sentences(line)][-MAX_SENTENCES:]
    said = [(word, sentence) for sentence in told if (word := _said(sentence, words))]
    agree = len({word for word, _ in said}) == 1
    return said[-1][0] if agree or (said and is_conclusion(said[-1][1])) else ""


def _said(sentence: str, words: tuple[str, ...]) -> str:
    clause = _MORE.split(sentence)[0].casefold()
    found = [(word, place) for word in words if (place := re.search(rf"\b{word}\b", clause))]
    if len(found) != 1 or _DOUBTS.search(clause):
        return ""
    word, place = found[0]
    if not _DENIED.search(clause[:place.start()]):
        return word
    other = words[1 - words.index(word)]
    return other if word == "true" or re.fullmatch(rf"(?:in|un|im|ir|non-?){word}", other) else ""
