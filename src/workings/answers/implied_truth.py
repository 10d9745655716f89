"""Yes or no as a sentence implies it: "So the sun cannot be seen at night" where that is asked.

The words of the question decide. A sentence that says all of them, in their order and of the same subject, says yes;
one that says nearly all of them and denies says no. One that hedges or contrasts anything says neither.
"""

import re

from workings.answers.latex import plain
from workings.answers.main_clause import last_clause, without_lead
from workings.answers.question_words import telling_words
from workings.answers.sentences import corrects, is_conclusion, last_lines, sentences, without_reason
from workings.answers.states_a_result import is_question

MAX_SENTENCES = 40
"""Last sentences of a text that are looked at."""
MAX_CHARACTERS = 400
"""Of a question and of a sentence; a longer one is compared with nothing."""
_ASKS_WHETHER = re.compile(r"\bis it (?:possible|true|correct|the case)\b", re.IGNORECASE)
# Of "the line y = 3x - 1" the words are "the line".
_EQUATION = re.compile(r"\b\w{1,3}\s?=\s?(?:\b\d*[a-z]\b|[-+*/^()\d.\s]){1,40}")
HEDGES = re.compile(
    r"\b(?:if|unless|whether|or|but|although|though|however|while|whereas|only|except|rather|instead|unlike|would"
    r"|could|might|(?-i:may)|should|perhaps|maybe|possibly|probably|sometimes|often|usually|rarely|hardly|some|many"
    r"|most|few|almost|nearly|less"
    r"|think|thought|believed?|considered|says?|said|claim(?:s|ed)?|myth|misconception|wrong|false|incorrect|untrue|once"
    r"|former(?:ly)?|used to|fails?|lacks?|without|neither|nor|either|impossible|unclear|depends"
    r"|(?:not|no|never) (?:only|just|merely|necessarily|always|doubt|matter|longer|more|less|fewer)"
    r"|far from|anything but|too|(?:meant|supposed|tr(?:y|ies|ied)|want(?:s|ed)?|plan(?:s|ned)?|expected|hoped|due"
    r"|about|going|ready|allowed|likely) to)\b",
    re.IGNORECASE)
"""What makes a sentence say less than its other words, so that it implies neither yes nor no."""
_DENIAL = re.compile(r"\b(?:not|cannot|never|no|unable to|incapable of)\b|n['’]t\b", re.IGNORECASE)
# "Penguins are birds, but their wings are flippers": what stands before it hedges nothing of the same subject.
_GOES_ON = re.compile(r"^(?:[^,;:]|,(?! but\b))*, but (?=(?:it|its|he|his|she|her|they|their|this|these|that)"
                      r"\b)", re.IGNORECASE)
# "Is Istanbul the capital of Turkey?": one is asked for, and there is only one.
_THE_ONE = re.compile(r"^(?:is|was)\s(?P<subject>(?:[A-Z][\w'’-]*\s)+)the\s"
                      r"(?P<what>[a-z]+(?:\s(?!of\b|in\b)[a-z]+){0,2})\b(?:\s(?:of|in)\s[^,;]*)?\?", re.IGNORECASE)
_A_NAME = r"[A-Z][\w'’-]*(?:\s[A-Z][\w'’-]*)*"
CONCESSION = re.compile(r"^\W*(?:even though|although|though|while)\b[^,;]*,\s", re.IGNORECASE)
"""What a sentence concedes before it says something: "Even though it is used as a vegetable, …"."""
TURNS = re.compile(r"\b(?:but|however|although|wait|actually|so(?! far\b)|therefore|thus|hence|yes|no)\b",
                   re.IGNORECASE)
"""What may take back or conclude something else than an earlier sentence says."""
# "nearly a million times faster".
_TIMES_AS_MUCH = re.compile(r"\b(?:(?:nearly|almost|about|over)\s)?(?:an?\s)?[\w.,]+\stimes\s(?=[a-z]+er\b|as\b)")
_POSSESSIVE = re.compile(r"\w['’]s\b")
# "is not a fish but a mammal".
_OTHER_CLAUSE = re.compile(r",\s(?:so|and)\s|,?\sbut\s|[;:]")
# Words of no weight, and one of weight that others stand behind.
_BETWEEN = r" (?:_ )*(?:[^_ ]\S* (?:_ )+)?"
_ADVERB_FIRST = re.compile(r"^\W*[a-z]+ly(?: speaking)?,\s", re.IGNORECASE)


def implied_truth(text: str, question: str) -> str | None:
    """`yes` or `no` where the last sentence that says most words of a question implies it; None where it does not.

    Sentences behind it may say something else, but neither conclude nor correct.

    >>> implied_truth("So a triangle cannot have two right angles.", "Can a triangle have two right angles?")
    'no'
    >>> implied_truth("A tomato is a fruit, since it has seeds.", "Is a tomato a fruit?")
    'yes'
    >>> implied_truth("A tomato is a fruit only in botany.", "Is a tomato a fruit?")
    """
    question_words = telling_words(_EQUATION.sub(" ", _ASKS_WHETHER.sub(" ", question)))
    # One telling word stands in too many sentences to connect one of them with the question.
    if len(set(question_words)) < 2 or len(question) > MAX_CHARACTERS:
        return None
    if re.search(r"\ball\b", question):
        text = re.sub(r"\b(?:every|each|any)\b", "all", text, flags=re.IGNORECASE)
    text = re.sub(r"\b(?:indeed|in fact|definitely|certainly)\s", "", text)
    text = _TIMES_AS_MUCH.sub("", text)
    statements = [sentence for line in last_lines(text)[-MAX_SENTENCES:] for sentence in sentences(line)]
    for sentence in reversed(statements[-MAX_SENTENCES:]):
        if _says_most(sentence, question_words):
            plainly = CONCESSION.sub("", plain(sentence).replace("*", ""))
            concluded = last_clause(plainly)
            clause = concluded if _says_most(concluded, question_words) else plainly
            if truth := _truth_of(without_reason(clause), question, question_words):
                return truth
            break
        if is_conclusion(sentence) or corrects(sentence) or is_question(sentence):
            return None
    # The first sentence may say it where no later one turns.
    if len(statements) < 2 or not _says_most(statements[0], question_words) or TURNS.search(" ".join(statements[1:])):
        return None
    return _truth_of(without_reason(plain(statements[0]).replace("*", "")), question, question_words)


def _says_most(sentence: str, asked: list[str]) -> bool:
    return 3 * len(set(asked) & set(telling_words(sentence))) >= 2 * len(set(asked))


def _truth_of(sentence: str, question: str, question_words: list[str]) -> str | None:
    if same_one := _is_the_one(sentence, question):
        return same_one
    clause = last_clause(sentence)
    sentence = clause if _says_most(clause, question_words) else sentence
    subject, behind = set[str](), _GOES_ON.sub("", sentence)
    if behind != sentence and len(_DENIAL.findall(behind)) == len(_DENIAL.findall(sentence)) == 1:
        sentence, subject = behind, set(telling_words(sentence)) & set(question_words)
    denials = list(_DENIAL.finditer(sentence))
    if len(denials) == 1:
        at = denials[0].end()
        sentence = sentence[:at] + _OTHER_CLAUSE.split(sentence[at:])[0]
    if len(denials) > 1 or len(sentence) > MAX_CHARACTERS or is_question(sentence) or any(
            hedge[0].casefold() not in question.casefold() for hedge in HEDGES.finditer(sentence)):
        return None
    if denials:
        return "no" if _is_denied(sentence, denials[0].end(), question_words, subject) else None
    clause = re.split("[;:]", without_lead(_ADVERB_FIRST.sub("", last_clause(sentence) or sentence)))[0]
    # An adverb may stand anywhere in the sentence.
    sentence_words = set(telling_words(sentence))
    question_words = [word for word in question_words if not (word.endswith("ly") and word in sentence_words)]
    same_subject = len(_POSSESSIVE.findall(clause)) <= len(_POSSESSIVE.findall(question)) and (
        " and " not in clause or " and " in question)
    return "yes" if same_subject and _is_asserted(clause, question_words) else None


def _is_the_one(sentence: str, question: str) -> str:
    """`yes` or `no` where a clause names the one that a question asks about; empty where none does.

    >>> _is_the_one("Milan is larger, but the capital is Rome.", "Is Milan the capital of Italy?")
    'no'
    """
    question_match = _THE_ONE.match(question)
    if question_match is None:
        return ""
    for clause in reversed(re.split(r"[,;]\s(?:but|while|whereas|and)\s", sentence)):
        naming = re.search(rf"\b[Tt]he {question_match['what']}(?:\s(?:of|in)\s[^,;]*?)?\s(?:is|was)\s({_A_NAME})"
                         rf"|^\W*({_A_NAME})\s(?:is|was)\sthe {question_match['what']}\b", clause)
        if naming is not None:
            name = telling_words(naming[1] or naming[2])
            if HEDGES.search(clause) or _DENIAL.search(clause):
                return ""
            return "yes" if name == telling_words(question_match["subject"]) else "no" if set(name).isdisjoint(
                telling_words(question)) else ""
    return ""


def _is_denied(sentence: str, at: int, asked: list[str], subject: set[str]) -> bool:
    """Whether a sentence says four of five words of a question, all numbers, and behind the denial in their order.

    ``subject``: the words of the question that the clause before it says of the same subject.
    """
    words, told, behind = set(asked), set(telling_words(sentence)) | subject, telling_words(sentence[at:])
    return (5 * len(words & told) >= 4 * len(words) and behind[:1] != [] and behind[0] in words
            and {word for word in words if word[0].isdigit()} <= told and in_order(behind, asked))


def in_order(told: list[str], asked: list[str]) -> bool:
    """Whether those of some words that a question says stand in its order."""
    rest = iter(asked)
    return all(word in rest for word in told if word in asked)


def _is_asserted(clause: str, asked: list[str]) -> bool:
    """Whether a clause begins with the first word of a question and says the others in their order.

    Between two of them one more may stand, as in "lies on the line", but none that limits the second: "a dwarf planet".
    """
    told = " ".join("".join(telling_words(word)) or "_" for word in clause.split())
    return re.match(rf"(?:_ )*{_BETWEEN.join(map(re.escape, asked))}(?!\S)", told) is not None
