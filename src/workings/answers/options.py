"""The choices that a question lists: what stands behind a letter, and which of them a text names or is worth."""

import re

from workings.answers.final_number import final_number
from workings.answers.numbers import equal_numbers, parse_number, parse_words
from workings.answers.question_words import telling_words
from workings.answers.sentences import corrects, is_conclusion, last_lines, sentences

MAX_LINES_OF_CHOICE = 20
"""Last lines in which options are looked for by their texts."""
LETTER_ALONE = re.compile(r"[(\[]?([A-Ja-j])[)\]]?[.:)]?")
"""A text that is the letter of a choice."""
_MARK = r"[(\[]?(?:([A-J])[).\]:]|([a-j])[)\]])"
_OPTION = re.compile(rf"(?<!\S){_MARK}\s*(\S[^\n]{{0,200}}?)(?=\s+{_MARK}\s|\s*\n|\s*$)")
_LINE = re.compile(rf"^[ \t]{{0,20}}{_MARK}[ \t]*(\S[^\n]{{0,200}}?)[ \t]*$", re.MULTILINE)
_NAME = re.compile(r"(?:[A-Z][\w.'’-]*\s?|(?:da|de|del|van|von|of|the)\s){1,5}")
_NUMBERED = re.compile(r"^\s*\(?(\d)[).]\s+(\S[^\n]{0,200}?)\s*$", re.MULTILINE)
# "**Canberra** (not Sydney, as many believe)", "Rome rather than Milan".
_CONTRAST = re.compile(r"\s\((?:not|rather than|unlike)\b[^()]*\)|,?\s(?:versus|rather than|as opposed to|unlike)\b.*$")
_ASKS_NOT = re.compile(r"\b(?:is|are|was|were)(?:\snot|n['’]t)\b|\bNOT\b|\bexcept\b|\bEXCEPT\b")
_ASKING = re.compile(r"\b(?:which|what|who|whom|whose|following|best|describes?|statements?|options?|correct|true"
                     r"|choose)\b", re.IGNORECASE)
NOT_CHOSEN = re.compile(r"\b(?:not|never|no|none|neither|nor|cannot|would|might|may|could|whether|unlike|wrong"
                         r"|incorrect|false|except|than|instead|but|although|while|whereas|or|opposite|ruled? out"
                         r"|eliminat\w{1,4}|exclud\w{1,4})\b|n['’]t\b|\?",
                         re.IGNORECASE)
"""What neither asserts an option nor tells it apart from the others."""
_CLAUSES = re.compile(r"(?:[,;]\s|\s)(?:and|while|whereas)\s|;\s")
_BELIEVED = re.compile(r"\b(?:think|thought|believe[sd]?|assumed?|guess|say|says|said|call|called|some|many|people"
                       r"|tempt\w+)\b", re.IGNORECASE)
# What a list of choices marks one of them with.
_TICKED = re.compile(r"^[ \t*_-]{0,20}[(\[]?([A-J])[).\]:][^\n]{0,300}[✅✔✓☑]", re.MULTILINE)
_LISTED = re.compile(r"^[ \t*_-]{0,20}[(\[]?[A-J][).\]:][^\n]*$", re.MULTILINE)
_THEREFORE = re.compile(r"^\W*(?i:that|this|which) leaves\b"
                        r"|\b(?:should|must|will|is|are|has to) (?:therefore|thus|hence)\b")


def option_of(letter: str, question: str) -> str:
    """What stands behind this letter among the choices of a question; empty where it lists none.

    >>> option_of("B", "Which is red? A) Venus B) Mars"), option_of("B", "What is a vitamin?")
    ('Mars', '')
    """
    wanted = LETTER_ALONE.fullmatch(letter.strip())
    return _options(question).get(wanted[1].upper(), "") if wanted else ""


def option_first(text: str, question: str) -> str:
    """The letter of the option that the first line or sentence of a text is, and nothing behind it corrects; or "".

    >>> option_first("B) Mars. Option A is too hot.", "Which planet is red? A) Venus B) Mars")
    'B'
    """
    lines = last_lines(_CONTRAST.sub("", text))[-MAX_LINES_OF_CHOICE:]
    statements = [sentence for line in lines for sentence in sentences(line)]
    for first, later in [(lines[0], lines[1:]), (sentences(lines[0])[0], statements[1:])] if lines else []:
        if "?" not in first and not any(is_conclusion(each) or corrects(each) for each in later):
            for letter, option in _options(question).items():
                words = _words_of(option)
                if re.search("[a-z]{3}", words) and _words_of(first) in (
                        words, f"{words} {letter.casefold()}", f"{letter.casefold()} {words}"):
                    return letter
    return ""


def option_said(text: str, question: str) -> str | None:
    """The letter of the option whose text alone answers in the last sentence; else None.

    Only where the last sentence is a conclusion, or says a third of the question's words and no other sentence the
    text of another option.

    >>> option_said("Iron rusts, so the planet is Mars.", "Which planet is red? A) Venus B) Mars")
    'B'
    """
    lines, stem = last_lines(_CONTRAST.sub("", text)), _OPTION.split(question, maxsplit=1)[0]
    stem_words, words_of_stem = set(telling_words(_ASKING.sub(" ", stem))), f" {_words_of(stem)} "
    options = {letter: words for letter, option in _options(question).items() if re.search(
        "[a-z]{3}", words := _words_of(option.removeprefix("It "))) and f" {words} " not in words_of_stem}
    statements = [sentence for line in lines[-MAX_LINES_OF_CHOICE:] for sentence in sentences(line)]
    if not any(_options_in(sentence, options) for sentence in statements) and all(
            map(_NAME.fullmatch, _options(question).values())):
        options = _by_parts(options, " ".join(statements))
    if statements and _ASKS_NOT.search(stem):
        # "Yellow is not a primary color; …": what is denied has to be what is asked for.
        before, *denied = _ASKS_NOT.split(re.split("[;:,]|\\bbut\\b", statements[-1])[0])
        found = _options_in(before, options)
        return next(iter(found)) if len(found) == len(denied) == 1 and stem_words & set(
            telling_words(denied[0])) else None
    options_by_statement = [_options_in(sentence, options) for sentence in statements]
    if stated := _stated_before_denials(statements, options_by_statement, stem_words):
        return stated
    if options_by_statement and len(options_by_statement[-1]) > 1 and (
            letter := _in_clause_asked(statements[-1], options, stem_words)):
        return letter
    if not options_by_statement or len(options_by_statement[-1]) != 1 or NOT_CHOSEN.search(statements[-1]):
        return None
    answers = is_conclusion(statements[-1]) or _THEREFORE.search(statements[-1]) or (
        set().union(*options_by_statement) == options_by_statement[-1]
        and 3 * len(stem_words & set(telling_words(statements[-1]))) >= len(stem_words))
    return next(iter(options_by_statement[-1])) if answers else None


def _stated_before_denials(statements: list[str], options: list[set[str]], stem_words: set[str]) -> str:
    """The option of the only sentence that says most words of a question; or "".

    Later ones deny every other option or say few of these words: "The capital is Canberra. Sydney is larger, but it
    isn't the capital."
    """
    said = [stem_words & set(telling_words(sentence)) for sentence in statements]
    at = [at for at, words in enumerate(said) if 5 * len(words) >= 3 * len(stem_words)]
    if len(at) != 1 or len(said[at[0]]) < 2 or len(found := options[at[0]]) != 1:
        return ""
    if NOT_CHOSEN.search(statements[at[0]]) or _BELIEVED.search(statements[at[0]]):
        return ""
    return next(iter(found)) if all(
        not (is_conclusion(sentence) or corrects(sentence)) and (
            others <= found or NOT_CHOSEN.search(sentence) or 3 * len(words) <= len(said[at[0]]))
        for sentence, others, words in list(zip(statements, options, said, strict=True))[at[0] + 1:]) else ""


def _in_clause_asked(sentence: str, options: dict[str, str], stem_words: set[str]) -> str:
    """The option of the clause that says clearly more of a question's words than the others of its sentence; or "".

    "Plants take in carbon dioxide and release oxygen."
    """
    clauses = [] if NOT_CHOSEN.search(sentence) or _BELIEVED.search(sentence) else _CLAUSES.split(sentence)
    said = [(len(stem_words & set(telling_words(clause))), sorted(_options_in(clause, options))) for clause in clauses]
    *_, (second, _), (most, letters) = [(0, list[str]()), *sorted(said)] if len(said) > 1 else [(0, list[str]())] * 2
    return letters[0] if most >= second + 2 and len(letters) == 1 else ""


def _options_in(sentence: str, options: dict[str, str]) -> set[str]:
    """The letters of the options whose words a sentence says; of one within another, the longer one."""
    rest, found = f" {_words_of(sentence)} ", set()
    for letter, words in sorted(options.items(), key=lambda option: -len(option[1])):
        if f" {words} " in rest:
            found.add(letter)
            rest = rest.replace(f" {words} ", "  ")
    return found


def _by_parts(options: dict[str, str], text: str) -> dict[str, str]:
    """Of each option its first or last word that a text says and no other has: "Leonardo" of Leonardo da Vinci."""
    taken, said = [word for words in options.values() for word in set(words.split(" "))], _words_of(text).split(" ")
    parts = {letter: [word for word in (words.split(" ")[0], words.split(" ")[-1]) if len(word) > 3 and word in said
                      and taken.count(word) == 1] for letter, words in options.items()}
    return {letter: words[0] for letter, words in parts.items() if words}


def with_ticked(text: str, question: str) -> str:
    r"""A text with the answer behind its list of choices, where one of them alone is ticked ("C. Paris ✅").

    >>> with_ticked("A. Rome ❌ no\nB. Paris ✅", "What is the capital of France?")
    'A. Rome ❌ no\nB. Paris ✅\nAnswer: B'
    """
    ticked, listed = _TICKED.findall(text), [*_LISTED.finditer(text)]
    if len(ticked) != 1 or len(listed) < 2 or _ASKS_NOT.search(question):
        return text
    return f"{text[:listed[-1].end()]}\nAnswer: {ticked[0]}{text[listed[-1].end():]}"


def option_worth(text: str, question: str) -> str | None:
    """The letter of the only option that is worth the number which a text says; None where there is none.

    >>> option_worth("A hexagon has six sides.", "How many sides has a hexagon? A) 5 B) 6")
    'B'
    """
    options = {letter: number for letter, option in _options(question).items() if (number := parse_number(option))}
    said = final_number(text, _OPTION.split(question, maxsplit=1)[0]) if len(options) > 1 else None
    number = parse_number(said or "") or parse_words(said or "")
    letters = [letter for letter, option in options.items() if number is not None and equal_numbers(number, option)]
    return letters[0] if len(letters) == 1 else None


def _words_of(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def letter_of(option: str, question: str) -> str:
    """The letter before this text among the choices of a question; empty where it is none of them, or twice there."""
    letters = [letter for letter, text in _options(question).items() if text.casefold() == option.strip().casefold()]
    return letters[0] if len(letters) == 1 else ""


def numbered_option(number: str, question: str) -> str:
    r"""What stands behind this number among the lines "1) …", "2) …" with which a question ends; empty for none.

    >>> numbered_option("2", "Which gas do plants take in?\n1) Oxygen\n2) Carbon dioxide")
    'Carbon dioxide'
    """
    return _numbered(question).get(number.strip(), "")


def number_of(option: str, question: str) -> str:
    r"""The number before this text among such lines; "" where it is none of them.

    >>> number_of("carbon dioxide", "Which gas do plants take in?\n1) Oxygen\n2) Carbon dioxide")
    '2'
    """
    texts = {text.casefold().rstrip("."): number for number, text in _numbered(question).items()}
    return texts.get(option.strip().casefold().rstrip("."), "")


def _numbered(question: str) -> dict[str, str]:
    options = _NUMBERED.findall(question)
    in_row = len(options) > 1 and [each[0] for each in options] == [str(at + 1) for at in range(len(options))]
    return dict(options) if in_row and question.rstrip().endswith(options[-1][1]) else {}


def with_letters(question: str) -> str:
    r"""A question that ends with the lines "1) …", "2) …", with the letters A, B, … in place of the numbers.

    >>> with_letters("Which gas do plants take in?\n1) Oxygen\n2) Carbon dioxide")
    'Which gas do plants take in?\nA) Oxygen\nB) Carbon dioxide'
    """
    return _NUMBERED.sub(lambda option: f"{chr(ord('A') + int(option[1]) - 1)}) {option[2]}", question) if _numbered(
        question) else question


def _options(question: str) -> dict[str, str]:
    """Choices by their letters; one letter with a bracket is a word of the question."""
    lines = [*_LINE.finditer(question)]
    in_row = "".join((line[1] or line[2]).upper() for line in lines)
    # Of lines in a row "B. F. Skinner" is one option.
    found = lines if len(lines) > 1 and "ABCDEFGHIJ".startswith(in_row) else _OPTION.finditer(question)
    options = {(option[1] or option[2]).upper(): option[3].strip(" ,;.\n") for option in found}
    return options if len(options) > 1 and "A" in options else {}
