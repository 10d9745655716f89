"""Names as answers: the sentence of a text that answers a question, and the first name in it that was not asked with.

Words of the question choose: "Pacific" is the ocean that was asked for, "Albert Einstein" the physicist Einstein.
"""

import re

from workings.answers.main_clause import corrected, without_lead
from workings.answers.question_words import telling_words
from workings.answers.sentences import corrects, is_conclusion, sentences
from workings.answers.states_a_result import is_question
from workings.answers.texts import HEDGED, normalise_text

MAX_CHARACTERS = 400
"""A longer answer is an explanation."""
MIN_LETTERS, MIN_WORDS = 2, 3
"""Of a name, and of a question that chooses."""
MAX_WORDS = 4
"""Of a text that is a name with an article and an adjective, and no sentence."""
_PERSON = re.compile(
    r"\b(?:who|whom|whose)\b|\b(?:which|what)\s(?:[a-z]+\s){0,3}?(?:physicist|scientist|chemist|biologist"
    r"|mathematician|astronomer|astronaut|inventor|engineer|explorer|author|writer|poet|playwright|painter|artist"
    r"|composer|musician|singer|actor|actress|director|president|king|queen|emperor|general|leader|philosopher"
    r"|player|person|man|woman)\b", re.IGNORECASE)
# "Text: …" of which something is asked: its names are no words of the question.
_QUOTED_TEXT = re.compile(r"(?:\b(?:text|passage|sentence|paragraph)\b:?\s*)?[\"“][^\"“”]{20,}[\"”]", re.IGNORECASE)
_TRANSLATED = re.compile(r"\W*[^\W\d_]+ \(([^\W\d_]{2,}(?: [^\W\d_]+)?)\)\W*")
_TITLES = frozenset(("president", "king", "queen", "captain", "general", "emperor", "saint", "pope", "prince"))
_PARTICLE = r"(?:da|de|del|della|di|la|le|van|von|der|den|bin|of|the)"
_PARTICLES = frozenset(_PARTICLE[3:-1].split("|"))
_NAME = re.compile(rf"[A-ZÀ-ÞĀ-Ž][\w.'’-]*(?:\s(?:{_PARTICLE}\s){{0,2}}[A-ZÀ-ÞĀ-Ž][\w.'’-]*)*")
# "the Spanish author": no name, where a common noun follows.
_NATIONAL = re.compile(r"[A-Z][a-z]+(?:ish|ese|ian|ean|can|ch|ek)(?=\s[a-z]{3})")
_BEGINS = re.compile("the|an?|le|la|les|el|los|las|il|der|die|das|its?|it's|this|that|these|those|in|on|at|by|for|from"
                     "|of|to|as|one|his|her|their|s?he|they|we|i|you|people|there|here|so|thus|therefore|yes|no|my|your"
                     "|our|what|which|who")
# What says more about a name: "the largest city in Türkiye", "(Turkey)", "; it looks reddish", ", which …".
_MORE = re.compile(r"\s*(?:\([^()]*\)|,\s(?:the|an?|which|who|whose|where|and (?:is|was))\s.*"
                   r"|;\s(?:it|its|he|she|his|her|they|this)\s.*)", re.IGNORECASE | re.DOTALL)
# "Anna has more: …", "Ben is taller".
_COMPARES = re.compile(r"\W*(?:So,? |Therefore,? )?(?P<name>(?!The\b|An?\b|It\b)[A-Z][\w'’-]*(?:\s[A-Z][\w'’-]*)?)"
                       r"\s(?:[a-z]+\s){1,3}?"
                       r"(?<!\ba\s)(?<!\ban\s)(?P<how>more|less|fewer|most|least|fewest|[a-z]{2,}er|[a-z]{2,}est)\b"
                       r"[^:;,.]*")


# Two clauses that say two things: "Sydney is the largest city, but the capital is Canberra".
_CLAUSES = re.compile(r"[,;]\s(?:while|whereas|but|although|though|even though|and)\s|;\s", re.IGNORECASE)
# "Portuguese, not Spanish", "Ottawa rather than Toronto".
_CONTRAST = re.compile(r"(?:,\snot|,?\s(?:rather than|instead of|unlike|as opposed to))\s.*", re.IGNORECASE | re.DOTALL)
_EMPHASIZED = re.compile(r"(?P<mark>\*{1,3}|_)(?P<text>[^*_\n]{2,60}?)(?P=mark)(?!\w)")
_BRACKETS = re.compile(r"\s*\([^()]*\)\W*$")
# "The president who was shot in Dallas, Texas, in 1963 was John Fitzgerald Kennedy."
_IS_NAMED = re.compile(rf"\b(?:is|was)\s(?P<name>{_NAME.pattern})\W*$")
_FACT = re.compile(r"\b(?:who|whom|whose|which|what|where|name)\b", re.IGNORECASE)
_OF_NO_WEIGHT = frozenset((
    "the", "and", "who", "whom", "whose", "which", "what", "where", "when", "did", "does", "was", "were", "are", "has",
    "have", "had", "name", "known", "for", "from", "that", "this", "with", "its", "into", "most", "mainly", "following",
    "these"))
# "Who painted …", "Who won?": the verb of what somebody did; and a verb behind a name.
_DOES = re.compile(r"\s(?:(?:has|had|have)\s|[a-z]+ly\s)?([a-z]+)\b")
_DID = re.compile(r"\bwho\s(?:first\s|originally\s)?(?!(?:is|was|were|are|has|had|did|does|do|will|would|can|could)\b)"
                  r"(?P<did>[a-z]+)", re.IGNORECASE)
# "Table salt is sodium chloride; its formula is NaCl."
_ITS = re.compile(r"[,;]\s(?:its|his|her|their|the) ([a-z]+) is (?:called )?([^,;]{1,40})$")
# "painted around 1665 by Johannes Vermeer".
_BY = re.compile(r"((?:\S+\s){1,5})by\s[A-Z]")
_WHICH = re.compile(r"\b(?:which|what)\s(?!is\b|was\b|are\b|were\b|did\b|does\b)([a-z]+)\b", re.IGNORECASE)
_SAME_STEM = 5
"""Letters by which two words are taken for forms of one: "invented", "inventing"."""


def answering_sentence(statements: list[str], question: str) -> str:
    """The last of the sentences that say most of the question's words, with a name that it does not say; "" for none.

    None where the question asks for no fact, and where a sentence behind it corrects it or concludes.

    >>> answering_sentence(["Mars is the red planet.", "It has two moons, Phobos and Deimos."], "Which planet is red?")
    'Mars is the red planet.'
    """
    if not _FACT.search(question):
        return ""
    question_stems = _stems(question)
    # One that says who did it, or what it is called, answers before one that says more about it.
    shares = [len(question_stems & _stems(sentence)) + len(question_stems) * _names_asked(sentence, question)
              for sentence in statements]
    best = max(shares, default=0)
    if not best or 2 * best < len(question_stems):
        return ""
    # Of sentences with equal shares the last, which may correct the ones before.
    at = len(shares) - 1 - shares[::-1].index(best)
    if statements[at].endswith(":") or is_question(statements[at]):
        return ""
    if any(is_conclusion(sentence) or corrects(sentence) for sentence in statements[at + 1:]):
        return ""
    return statements[at] if _names_asked(statements[at], question) or _unasked(
        without_emphasis(statements[at]), words_of(question)) else ""


def _names_asked(sentence: str, question: str) -> bool:
    """Whether a sentence says by whom something was done, or of what is asked for how it is called.

    >>> _names_asked("It was painted by Claude Monet.", "Who painted it?")
    True
    >>> _names_asked("The metal is called tin.", "Which metal has the symbol Sn?")
    True
    """
    if HEDGED.search(sentence):
        return False
    which, did = _WHICH.search(question), _DID.search(question)
    if which and re.search(rf"\b(?:the|this|that) {which[1]} is (?:called|named|known as) ", sentence, re.IGNORECASE):
        return True
    by = _BY.search(sentence)
    return did is not None and by is not None and set(telling_words(did["did"])) <= set(telling_words(by[1]))


def _stems(text: str) -> set[str]:
    return {word[:_SAME_STEM] for word in words_of(text) if len(word) > 2 and word not in _OF_NO_WEIGHT}


def words_of(text: str) -> set[str]:
    """The words of a text, spelt as `normalise_text` spells them, "Verdi's" as "Verdi"."""
    return set(re.findall(r"\w+", _spelt(text)))


def _spelt(text: str) -> str:
    return re.sub(r"(?<=\w)['’]s\b", "", normalise_text(text))


def names_expected_answer(given: str, expected: str, question: str) -> bool:
    """Whether an answer says the expected name, as far as its question tells.

    >>> names_expected_answer("Pacific", "Pacific Ocean", "Which ocean is the largest?")
    True
    >>> names_expected_answer("Mars is the red one; Venus is hotter.", "Venus", "Which planet is called red?")
    False
    """
    # Before anything is spelt alike: most expected answers are numbers.
    if not expected[:1].isalpha() or any(map(str.isdigit, expected)) or len(given) > MAX_CHARACTERS:
        return False
    question = _QUOTED_TEXT.sub("", question)
    expected = re.sub(r"^the (?=[A-Z])", "", expected)
    if expected[:1].islower():
        wanted = _spelt(expected)
        return _is_emphasized(given, wanted.split(), question) or _ends_with(given, wanted, question)
    expected_words, given_words = _spelt(expected).split(), _spelt(given).split()
    question_words = words_of(question)
    # A letter is a choice, and one that is named may be one that is left out.
    if len("".join(expected_words)) < MIN_LETTERS or len(question_words) < MIN_WORDS:
        return False
    of_a_person = _PERSON.search(question) is not None
    if _is_short_for(given_words, expected_words, question_words) or _is_short_for(
            expected_words, given_words, question_words) or _translated(given, question) == expected_words:
        return True
    if of_a_person and given_words == without_rank(expected_words)[-1:] and not set(given_words) <= question_words:
        return True
    statements = sentences(given.strip().rstrip("."))
    if len(statements) != 1 or re.search(r"(?<!^that )\bwould\b", statements[0], re.IGNORECASE):
        return False
    sentence = corrected(statements[0])
    if len(parts := re.split(r",\s|\s(?:and|or)\s", sentence)) > 2 and all(map(_NAME.fullmatch, parts)):
        return False  # "Paris, London, Rome" answers nothing
    hedged = HEDGED.search(sentence) is not None
    if not hedged and _doers(sentence, question) == [expected_words]:
        return True
    # "Sweden uses the Swedish krona (SEK)": the end of a sentence of one clause.
    end = re.search(r"^([^,;:]*\s(?:uses|is|has|speak|speaks)\s)(?:called )?([^,;:]*)$", _BRACKETS.sub("", sentence))
    if end and not hedged and _spelt(end[2]).split() == expected_words and _stems(end[1]) & _stems(question):
        return True
    if (attribute := _ITS.search(sentence)) and attribute[1] in question_words and not hedged:
        return _spelt(attribute[2]).split() == expected_words
    if compared := _COMPARES.match(sentence):
        return (compared["how"].casefold() in question_words and not HEDGED.search(compared[0])
                and _spelt(compared["name"]).split() == expected_words)
    name = _answer_in(sentence, question)
    return bool(name) and (_same_name(without_rank(name), without_rank(expected_words)) or (
        of_a_person and (_holds(name, expected_words) or _is_surname(without_rank(name), without_rank(expected_words))))
        or _is_short_for(name, expected_words, question_words) or _is_short_for(expected_words, name, question_words))


def _doers(sentence: str, question: str) -> list[list[str]]:
    """The names before the verb of a question that asks who did something: "Raj won", where it asks who won."""
    did = _DID.search(question)
    stems = telling_words(did["did"]) if did else []
    sentence = without_emphasis(sentence)
    verbs = [(name[0], _DOES.match(sentence, name.end())) for name in _NAME.finditer(sentence)]
    return [_spelt(re.sub(r"^(?:So|Thus|Therefore|Hence|Then)\s", "", name)).split() for name, verb in verbs
            if verb is not None and stems and telling_words(verb[1]) == stems]


def _is_emphasized(given: str, expected_words: list[str], question: str) -> bool:
    """Whether a sentence emphasizes the wanted words alone, or behind words of the question: Thai baht."""
    statements, question_words = sentences(given.strip().rstrip(".")), words_of(question)
    clause = without_lead(_CONTRAST.sub("", statements[0])) if len(statements) == 1 else ""
    marked = [] if HEDGED.search(clause) else _EMPHASIZED.findall(clause)
    if not marked and len(_BRACKETS.sub("", clause).split()) <= MAX_WORDS and not HEDGED.search(clause):
        marked = [("", clause)]  # "The Japanese yen (¥)"
    if len(marked) != 1 or len(question_words) < MIN_WORDS or set(expected_words) <= question_words:
        return False
    words = _spelt(_BRACKETS.sub("", marked[0][1])).split()
    before, behind = words[:-len(expected_words)], words[-len(expected_words):]
    return behind == expected_words and all(any(
        question_word.startswith(word) or question_word[:_SAME_STEM] == word[:_SAME_STEM]
        for question_word in question_words) for word in before)


def _translated(given: str, question: str) -> list[str]:
    """The words in brackets of "Deutsch (German)", where a question asks for a language or a translation."""
    translated = _TRANSLATED.fullmatch(given)
    asks = re.search(r"\blanguage\b|\btranslat", question, re.IGNORECASE)
    return _spelt(translated[1]).split() if translated and asks else []


def _ends_with(given: str, expected: str, question: str) -> bool:
    """Whether a sentence of one clause with words of the question ends with the expected word behind a preposition.

    >>> _ends_with("In Japan people pay with yen.", "yen", "Which currency has Japan?")
    True
    """
    statements = sentences(given.strip())
    if len(statements) != 1 or HEDGED.search(given) or re.search(r"[,;:]|\b(?:and|but|while)\b", given):
        return False
    found = re.fullmatch(rf"(.*) (?:with|of|into|by) {re.escape(expected)}", _spelt(given))
    return found is not None and bool(_stems(found[1]) & _stems(question)) and not (
        set(expected.split()) & words_of(question))


def _same_name(one: list[str], other: list[str]) -> bool:
    """Whether two names are the same, an initial for a name: John F. Kennedy, John Fitzgerald Kennedy."""
    if len(one) != len(other):  # "Vincent Willem van Gogh"
        short, long = (one, other) if len(one) < len(other) else (other, one)
        rest = iter(long)
        return len(short) > 1 and short[0] == one[0] == other[0] and one[-1] == other[-1] and all(
            word in rest for word in short)
    return one[-1:] == other[-1:] and all(
        a == b or (1 in (len(a), len(b)) and a[0] == b[0]) for a, b in zip(one, other, strict=True))


def _is_surname(name: list[str], full: list[str]) -> bool:
    """Whether a name is the end of a full one: "Washington", "van Gogh"."""
    return full[-len(name):] == name and (len(name) == 1 or full[-len(name)] in _PARTICLES)


def _answer_in(sentence: str, question: str) -> list[str]:
    """The words of the name that a sentence answers with: what alone is emphasized, else the first one not asked with.

    Of several clauses the one with most words of the question counts. Empty where it denies, doubts or has no name, or
    where two clauses have as many.
    """
    question_words, stems = words_of(question), _stems(question)
    shares = {clause: len(stems & _stems(clause)) for clause in _CLAUSES.split(_MORE.sub("", sentence))}
    clause, *others = (candidate for candidate, share in shares.items() if share == max(shares.values()))
    if any(_unasked(other, question_words) for other in others):
        return []
    clause = without_lead(_CONTRAST.sub("", clause))
    # A doubted name is no answer, and taking it would reward guessing.
    if HEDGED.search(clause):
        return []
    marked = [match["text"] for match in _EMPHASIZED.finditer(clause) if not words_of(match["text"]) <= question_words]
    if len(marked) == 1:
        clause = marked[0]
    elif (naming := _IS_NAMED.search(clause)) is not None and not re.search(r"\b(?:and|while)\b", clause):
        clause = naming["name"]
    names = _unasked(without_emphasis(clause), question_words)
    # "Brazilians speak Portuguese", where Brazil is asked about.
    new_names = [name for name in names if not all(word[:_SAME_STEM] in stems for word in name)]
    return (new_names + names)[0] if names else []


def without_rank(words: list[str]) -> list[str]:
    """The words of a name without "Jr." behind it and "President" before it."""
    words = words[:-1] if words[-1:] in (["jr"], ["sr"]) else words
    return words[1:] if len(words) > 1 and words[0] in _TITLES else words


def without_emphasis(text: str) -> str:
    """A text without the marks of bold and italic words."""
    return _EMPHASIZED.sub(lambda match: match["text"], text)


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
        words = _spelt(name[0]).split()
        # At the beginning of a sentence a capital letter tells no name.
        if not name.start() and words and _BEGINS.fullmatch(words[0]):
            words = words[1:]
        # "two days before Friday" names another day.
        # "Einstein's teacher" is another one.
        owner = name[0].endswith(("'s", "’s")) and re.match(r"\s[a-z]", sentence[name.end():])
        other_day = re.search(r"\b(?:before|after|than)\s$", sentence[:name.start()])
        if words and not owner and not other_day and not set(words) <= asked:
            found.append(words)
    return found
