"""Letters of choices, and yes or no: what a text that announces one says."""

import re

from workings.answers.implied_truth import CONCESSION, HEDGES, TURNS, implied_truth, in_order
from workings.answers.latex import plain
from workings.answers.main_clause import last_clause, without_lead
from workings.answers.options import LETTER_ALONE, NOT_CHOSEN
from workings.answers.question_words import telling_words
from workings.answers.sentences import MAX_LINE, corrects, is_conclusion, last_lines, sentences, without_markup

TRUTHS = frozenset(("yes", "no", "true", "false"))
_LETTER_FIRST = re.compile(r"(?:option|choice|answer)?\s*(?:[(\[]([A-Ja-j])[)\]]|([A-J])(?:[).:](?! [A-Z]\.)|\*\*|,? "
                           r"(?:because|since|as|is (?:the )?(?:correct|right|best)"
                           r"|it is|and not|not|rather)\b|\s?[-–—(]|,\s(?:not|because|since|as|which)\b"
                           r"|,\sthe\s(?!.*\b(?:not|wrong|incorrect)\b)[^,.;:]{1,60}[.!]?\W{0,3}$))", re.IGNORECASE)
# "You should **B. Stop, drop, and roll**.": the only bold text.
_LETTER_BOLD = re.compile(r"\*\*[(\[]?([A-J])[).\]:]\s[^*\n]{2,200}\*\*")
_LETTER_SAID = re.compile(
    r"\b(?:option|choice|answer|letter|select|pick|choose|choosing|go(?:ing)? with|leaves|it(?:['’]s| is| must be))\s*"
    r"(?:actually|really|clearly|definitely)?\s*"
    r"(?:is|are|would be|[-–]"
    r"|:)?\s*[*_\"]*[(\[]?([A-J])(?:[)\]]|(?![\w'’]))"
    r"|\b(?:is|are|be)\s*[*_\"]*\(([A-J])\)|\b(?:by|so|therefore|thus|hence),?\s\W{0,3}([A-J])\W*$", re.IGNORECASE)
# "(C) carbon dioxide, not (A) oxygen".
_NOT_ANOTHER = re.compile(r"(?:,\s(?:and )?not|,?\s(?:rather than|instead of))\s(?:option |choice )?[(\[]?[A-J][)\]]?"
                          r"(?:\s[^,.;:]{0,100})?[.]?$")
_UNSURE = re.compile(r"\b(?:whether|not sure|can(?:no|['’])t (?:say|tell)|cannot (?:say|tell))\b", re.IGNORECASE)
# "B. Paris is wrong."
_CALLED_WRONG = re.compile(r"\b(?:is|was)\s(?:wrong|incorrect|false|not (?:correct|right))\W*$")
_LETTERS = re.compile(r"\b[A-J]\b(?!['’])")
_LETTER_ONLY = re.compile(r"\b[Oo]nly\s(?:option |choice )?[(\[]?([A-J])[)\]]?(?=,\s(?!and\b|or\b|[A-J]\b)"
                          r"|\s(?:is|fits|works|matches|makes|describes|has)\b)")
_LETTER_JUDGED = re.compile(r"(?<![\w'’])[(\[]?([A-J])[)\]]?\W{0,3}\s?(?:(?:is|must be|seems) (?:the )?(?:correct"
                            r"|right|best|true|only|most (?:likely|sensible|reasonable|suitable|appropriate|plausible))"
                            r"|makes (?:the )?most sense|(?:fits|works) best)\b",
                            re.IGNORECASE)
_OTHER_LETTER = re.compile(r"^\W{0,3}(?:(?:,|and|or|&|/)\s*[(\[]?[A-J][)\]]?(?![\w'’])|(?:is|are"
                           r"|was)\s+(?:wrong|incorrect|false|not|out|too)\b)", re.IGNORECASE)
# "Choice B is too narrow, choice C …": a line that speaks of several choices makes none with that.
_SPOKEN_OF = re.compile(r"(?:^|[,;:.]\s|\b(?:and|while|but)\s)\W*(?:option|choice)\s\W{0,3}([A-J])\b\W{0,3}\s"
                        r"(?!(?:is|must be|seems) (?:the )?(?:correct|right|best|true|only)\b"
                        r"|(?:because|since|as|and|or)\b)[a-z]{2,}", re.IGNORECASE)
_BOTH = re.compile(r"^\W*none of\b|\b(?:both|either|neither|not|isn't|isn’t|cannot|can't|wrong|incorrect|eliminate"
                   r"|rule out"
                   r"|nor|or|between)\W{0,3}\s*(?:be\s+)?(?:option |choice )?[(\[]?[A-J](?![\w'’])",
                   re.IGNORECASE)

_TRUTH_FIRST = re.compile(r"(?:(?:so|therefore|thus|hence|well|then|in short)\b,?\s*)?(yes|no|true|false)(?![\w'’])"
                          r"(?=\W*$|[*_\"”]*\s*[,.;:!(—–]|\s-|\W*\s(?:because|since|as|it|he|she|they|we|this"
                          r"|that)\b)(?!,?\s*(?:and|or)\s)", re.IGNORECASE)
_TRUTH_LAST = re.compile(r"\b(?:is|are|answer|be|say|would be|conclude)\s*:?\s*[\"'*_“]*(yes|true|false"
                         r"|no(?!\s(?!because|since|as)[a-z]))(?![\w'’])(?!\s*(?:and|or)\s)", re.IGNORECASE)
_TRUTH_CONCLUDED = re.compile(r"(?:[:,]|,?\s(?:so|then)\b,?)\s*[\"'*_“]*(yes|no|true|false)(?:\W*$|,\s)", re.IGNORECASE)
# Yes and no in German, French, Spanish, Portuguese, Italian, Russian, Chinese and Japanese.
_TRUTH_ELSEWHERE = re.compile(r"\W*(?:(ja|oui|sí|sim|sì|да|是的?|对|はい)|nein|non|não|нет|不是?|否|いいえ)"
                              r"(?=[\s,.!;:，。！]|$)", re.IGNORECASE)
# "**No.** Although …": it is said once, and in bold.
_TRUTH_BOLD = re.compile(r"\*\*(yes|no|true|false)[.,!]?\*\*", re.IGNORECASE)
# What a conclusion may begin with.
_SO = r"^\W*(?:(?:so|therefore|thus|hence),?\s)?"
# "so it is not prime", "It cannot": where the question asks for just that.
_DENIES = re.compile(rf"{_SO}(?:it|this|that|they|he|she|[\d,.]+|the [a-z]+)\s"
                     r"(?:(?:is|are|was|were|can|could|does|do|did|will|has|have|would)(?:n['’]t|\snot)|cannot)"
                     r"(?:\s(?:an?|the))?(?:\s(?P<what>[^\W\d_]+)|\W*$|[,:;])", re.IGNORECASE)
_ASKS = re.compile(r"(?:is|are|was|were|can|could|does|do|did|will|has|have|would)\s(?!.{0,60}(?:\bnot\b|n['’]t\b))",
                   re.IGNORECASE)
# "so it is indeed a leap year".
_STATES = re.compile(rf"{_SO}(?:by definition,?\s)?(?:it|this|that|they|he|she)\s(?:is|are|was|were)"
                     r"(?:\s(?:indeed|in fact|actually|also))?(?:\s(?:an?|the))?\s"
                     r"(?!not\b|number\b|only\b)(?P<what>[^\W\d_]+)\b"
                     r"(?!.*\b(?:not|but|if)\b)", re.IGNORECASE)
# "He did not. …", "It is: …".
_BARE = re.compile(r"\W*(?:(?:so|indeed)\s)?(?:it|this|that|they|he|she|there|we|you)\s"
                   r"(?:indeed\s|(?:sure|certainly|definitely|really|actually|clearly|surely|truly|absolutely)\s)?"
                   r"(?P<does>is|are|was|were|can|could|does|do|did|will|has|have|had)(?P<denied>n['’]t|\snot)?"
                   r"(?:\W*$|[,:]\s)", re.IGNORECASE)
_DECLINES = re.compile(r"\W*(?:(?:unfortunately|sadly|definitely|certainly|absolutely|of course|surely) not"
                       r"|nope|not at all|no way)\b",
                       re.IGNORECASE)
# "Many people think so, but actually it isn't".
_SOME_THINK = re.compile(r"^[^,;]*\b(?:think|believe|assume|say)s?\b[^,;]*, but (?:actually |in fact )?", re.IGNORECASE)
# "So such a triangle does not exist."
_SUCH = re.compile(rf"{_SO}(?P<no>no\s)?such\s(?:an?\s)?(?P<what>[a-z]+\s)"
                   r"(?P<denied>(?:(?:does|do|can|could)(?:\snot|n['’]t)|cannot)\s)?(?:can\s)?(?P<does>[a-z]+)\W*$",
                   re.IGNORECASE)
_WORDS = re.compile(r"[\d.,/:%]*\d%?|[^\W\d_]+(?:['’]t)?")
_WITHOUT_WEIGHT = frozenset((
    "is", "are", "was", "were", "can", "does", "do", "did", "will", "has", "have", "so", "thus", "therefore", "hence",
    "a", "an", "the", "indeed"))
# "so that's correct", "the statement does not hold": of what the question asks.
_JUDGED = re.compile(
    rf"{_SO}(?:"
    r"(?:(?:that|this|it)(?:['’]s|\sis)|(?:the|that|this) (?:statement|claim|assertion|inequality|equation) is)\s"
    r"(?:indeed\s)?"
    r"(?P<denied>not\s)?(?P<how>correct|accurate|true|right|false|incorrect|inaccurate|wrong)"
    r"|the (?:statement|claim|assertion|inequality|equation) (?:(?:indeed )?holds"
    r"|(?P<fails>(?:does not|doesn['’]t) hold)))(?:\W*$|[;:]\s)", re.IGNORECASE)
_MORE = ("more", "greater", "larger", "bigger", "higher")
# "…, which is more than 40": of the number before it.
_COMPARED = re.compile(rf"\b(?P<how>{'|'.join(_MORE)}|less|smaller|fewer|lower) than \$?"
                       r"(?P<number>\d[\d.,]*\d|\d)(?:\s[a-z]+)?\W*$", re.IGNORECASE)
_AFFIRMS = re.compile(r"\W*(?:correct|of course|definitely|yep|yeah|sure|indeed|exactly|certainly|absolutely"
                      r"|that['’]s (?:right|correct))(?:\syes)?\W{0,3}[,.!]\s", re.IGNORECASE)
# Whether somebody has what is needed: "so she is $3 short", "which is enough".
_SHORT = re.compile(r"\b(?:is|are|was|were|be|falls?|comes?)\s(?:still\s)?(?:\W?\d[\d.,]*\s?(?:[a-z%°]+\s){0,2})?short"
                    r"(?:\sof\s[^,;]*)?\W*$", re.IGNORECASE)
_ENOUGH = re.compile(r"(?P<denied>\bnot\s(?:[a-z]+\s)?|n['’]t\s(?:[a-z]+\s)?)?(?<!almost )(?<!nearly )(?<!hardly )"
                     r"\benough(?:\s(?:money|time|of it|left|for|to)\b[^,;]*)?\W*$", re.IGNORECASE)
_SUFFICES = re.compile(r"\b(?:enough|afford|buy|pay|reach|fit|suffice|last|complete|finish|fill|make)\b", re.IGNORECASE)
# "Yes, it was used in the past, but it is toxic": behind a first "no" it takes nothing back.
_CONCEDES = re.compile(r"\W*(?:yes|no|true),\s[^.;]*, but\b", re.IGNORECASE)
# What may take back the yes or no of a first sentence.
_SETTLES = re.compile(r"\b(?:wait|actually|hmm|sorry|answer|correction)\b", re.IGNORECASE)
# Also what one is tempted to say, or some say: "It is tempting to say yes".
_DENIED = re.compile(r"(?:\b(?:not|never|hard to|whether|if|tempt(?:ing|ed)|wrong(?:ly)?|mistake|many|most|some"
                     r"|people|might)|n['’]t)\s(?:\w+\s){0,3}$", re.IGNORECASE)


def choice_in(text: str) -> str | None:
    """The letter (upper case) that a text chooses; None where it chooses none or several.

    >>> choice_in("(B) Paris"), choice_in("A or B"), choice_in("A number of people")
    ('B', None, None)
    """
    cleaned = _bare(text)
    if alone := LETTER_ALONE.fullmatch(cleaned):
        return alone[1].upper()
    lines = last_lines(text)
    if text.count("**") == 2 and (in_bold := _letter_in_bold(text)):
        return in_bold
    # What is said last counts; a first line that names a choice counts where no later one does.
    for line in [*reversed(lines[-3:]), *lines[:1]]:
        if len(set(_SPOKEN_OF.findall(line))) > 1:
            line = _SPOKEN_OF.sub(" ", line)
        for sentence in reversed(sentences(line)):
            if (letter := _sentence_choice(_bare(sentence))) is not None:
                return None if _listed(lines, letter.upper()) else letter.upper()
    return None


def _bare(text: str) -> str:
    return without_markup(plain(text).replace("$", " "))


def _sentence_choice(sentence: str) -> str | None:
    sentence = _NOT_ANOTHER.sub("", sentence)
    if _BOTH.search(sentence) and not re.match(r"[(\[]?[A-J][)\]]?,? (?:and )?(?:not|rather than) ", sentence):
        return None
    if alone := LETTER_ALONE.fullmatch(sentence):
        return alone[1]
    if _UNSURE.search(sentence):
        return None
    if _CALLED_WRONG.search(sentence) and len(set(_LETTERS.findall(sentence))) == 1:
        return None
    for match in (_LETTER_FIRST.match(sentence), _LETTER_ONLY.search(sentence),
                  *reversed([*_LETTER_SAID.finditer(sentence)][-3:]), _LETTER_JUDGED.search(sentence)):
        if match is not None:
            letter = next(group for group in match.groups() if group)
            # A small letter is an article or a variable unless it stands in brackets.
            named = letter.isupper() or re.search(r"[()\[\]]|^(?:option|choice)\b", match.group(), re.IGNORECASE)
            if named and not _OTHER_LETTER.match(sentence[match.end(match.lastindex or 0):]):
                return letter
    return None


def _letter_in_bold(text: str) -> str:
    """The letter of a choice that is named in bold, as in "You should **B. Stop** first"; "" where it is denied."""
    bold = _LETTER_BOLD.search(text)
    if bold is None:
        return ""
    before, behind = text[max(0, bold.start() - MAX_LINE):bold.start()], text[bold.end():bold.end() + MAX_LINE]
    around = (re.split(r"[.!?\n]", before)[-1], re.split(r"[.!?\n]", behind)[0])
    later = [sentence for line in behind.split("\n") for sentence in sentences(line)]
    denied = any(map(NOT_CHOSEN.search, around)) or any(is_conclusion(each) or corrects(each) for each in later)
    return "" if denied else bold[1]


def _listed(lines: list[str], letter: str) -> bool:
    """Whether the lines go through several choices, as in "A) wrong", "B) right", so that the last is not chosen."""
    starts = {start[1] for line in lines[-12:] if (start := re.match(r"[\s*_-]*\(?([A-J])[).:]", line))}
    return len(starts) > 1 and letter in starts and not any(_LETTER_SAID.search(line) for line in lines[-2:])


def truth_in(text: str) -> str | None:
    """`yes`, `no`, `true` or `false`, as a text says it; None where it says none of them, or both.

    >>> truth_in("Yes, because 7 divides 91."), truth_in("Yes and no."), truth_in("The statement is not false.")
    ('yes', None, None)
    """
    lines = last_lines(text)
    if elsewhere := _TRUTH_ELSEWHERE.match(text):
        return "yes" if elsewhere[1] else "no"
    if (bold := _TRUTH_BOLD.findall(text[-20_000:])) and len(bold) == 1 and lines and _TRUTH_BOLD.match(lines[0]):
        return str(bold[0]).casefold()
    first = _TRUTH_FIRST.match(without_markup(plain(sentences(lines[0])[0]))) if lines else None
    for line in [*reversed(lines[-3:]), *lines[:1]]:
        # Only then the first sentence: "No, wait. So the answer is yes."
        for sentence in reversed(sentences(line)):
            cleaned = without_markup(plain(sentence).replace("**", ""))
            if first and sentence != sentences(lines[0])[0] and _CONCEDES.match(cleaned):
                continue
            if truth := _truth_of(cleaned):
                # "No, it isn't. Yes, it comes close." says both.
                agrees = first is None or truth == first[1].casefold()
                return truth if agrees or is_conclusion(cleaned) or _SETTLES.search(text) else None
    return None


def _truth_of(sentence: str) -> str:
    if truth := _TRUTH_FIRST.match(sentence) or _TRUTH_CONCLUDED.search(sentence):
        return truth[1].casefold()
    truths = [match for match in _TRUTH_LAST.finditer(sentence)
              if not _DENIED.search(sentence[max(0, match.start(1) - 40):match.start(1)])]
    if not truths:
        return ""
    # Behind a colon stands why: "It is true: false it would be only …".
    colon = sentence.find(":", truths[0].end())
    return (truths[0] if 0 <= colon < truths[-1].start() else truths[-1])[1].casefold()


def _is_of_question(clause: str, question: str) -> bool:
    """Whether a clause says the words of a question in its order, and no other number before its first comma."""
    clause_words, question_words = (telling_words(re.split(r",\s|[;:(=]", text)[0]) for text in (clause, question))
    numbers = {word for word in clause_words if word[0].isdigit()}
    return in_order(clause_words, question_words) and numbers <= set(question_words)


def _judged(clause: str, question: str) -> str | None:
    """`yes` or `no` where a clause says whether what is asked is true, or whether there is enough for it."""
    if (judged := _JUDGED.match(clause)) is not None:
        how = (judged["how"] or "true").casefold()
        if how in question.casefold():  # "Is it false that …?"
            return None
        denies = bool(judged["denied"] or judged["fails"]) != (how in ("false", "incorrect", "inaccurate", "wrong"))
        return "no" if denies else "yes"
    if HEDGES.search(clause) or not _SUFFICES.search(question) or "short" in question:
        return None
    if _SHORT.search(clause):
        return "no"
    enough = _ENOUGH.search(clause)
    return None if enough is None else "no" if enough["denied"] else "yes"


def _compared(sentence: str, question: str) -> str | None:
    """`yes` or `no` where the end of a sentence compares with the number that a question compares with.

    >>> _compared("15 + 27 = 42, which is more than 40.", "Is 15 + 27 greater than 40?")
    'yes'
    """
    stated, in_question = _COMPARED.search(sentence), _COMPARED.search(question)
    if not stated or not in_question or stated["number"] != in_question["number"] or question.count(" than ") > 1:
        return None
    if HEDGES.search(sentence[:stated.start("how")]) or re.search(r"\b(?:not|no|never)\b|n['’]t\b", sentence):
        return None
    is_more = [compared["how"].casefold() in _MORE for compared in (stated, in_question)]
    return "yes" if is_more[0] == is_more[1] else "no"


def stated_in(text: str, question: str) -> str | None:
    """`yes` or `no` where the last sentence states or denies what the question asks; None where it does neither.

    >>> stated_in("91 is 7 × 13, so it is not prime.", "Is 91 prime?"), stated_in("It is not even.", "Is 91 prime?")
    ('no', None)
    >>> stated_in("So Ann is older than Ben.", "Is Ann older than Ben?"), stated_in("Ben is old.", "Is Ann old?")
    ('yes', None)
    """
    asking = sentences(question.strip()[-MAX_LINE:])
    questions = [sentence for sentence in asking if sentence.endswith("?")][-1:] or asking[-1:]
    lines = last_lines(text)
    if not questions or not lines:
        return None
    if _DECLINES.match(lines[0]):
        return "no"
    asking_word = without_lead(questions[0]).split(" ")[0].casefold()
    first, last = sentences(lines[0])[0], sentences(lines[-1])[-1]
    for sentence in (last,) if first == last or TURNS.search(text.replace(first, "", 1)) else (first, last):
        bare = _BARE.match(without_lead(_SOME_THINK.sub("", sentence)))
        if bare and bare["does"].casefold() == asking_word and not TURNS.search(bare.string[bare.end():]):
            return "no" if bare["denied"] else "yes"
    if _ASKS.match(questions[0]) is None:
        return None
    if first != last and not TURNS.search(text.replace(first, "", 1)) and (
            judged := _judged(without_lead(first), questions[0])):
        return judged  # "The statement is incorrect. An acute angle measures less."
    statements = sentences(lines[-1])
    last = CONCESSION.sub("", statements[-1].replace("*", ""))
    clause = last_clause(last) or last
    if (denied := _DENIES.match(clause)) is not None and (denied["what"] is None or (
            re.search(rf"\b{denied['what']}\b", question, re.IGNORECASE) and _is_of_question(clause, questions[0]))):
        return "no"
    such = _SUCH.match(clause)
    if such and set(telling_words(such["what"] + such["does"])) <= set(telling_words(questions[0])):
        return "no" if such["no"] or such["denied"] else "yes"
    if (judged := _judged(without_lead(clause), questions[0]) or _compared(last, questions[0])) is not None:
        return judged
    states = _STATES.match(clause)
    if states is not None and states["what"].casefold() in _WORDS.findall(questions[0].casefold())[-4:]:
        return "yes"
    # In the question's words and in their order: "2/3 is greater than 0.66".
    question_words, stated_words = (_WORDS.findall(plain(sentence).replace("*", "").casefold())
                                    for sentence in (questions[0], statements[-1]))
    stated_words = [word for word in stated_words if word not in _WITHOUT_WEIGHT]
    rest = iter(question_words)
    same_order = all(word in rest for word in stated_words)
    if len(stated_words) > 1 and same_order and stated_words[-1] == question_words[-1]:
        return "yes"
    implied = implied_truth(text, questions[0])
    # "Correct, …" says yes where nothing behind it denies or doubts.
    plainly = re.sub(r"\s\([^()]*\)", "", text)
    affirms = _AFFIRMS.match(f"{plainly} ") is not None and not HEDGES.search(plainly) and (
        not NOT_CHOSEN.search(plainly))
    return "yes" if implied is None and affirms else implied
