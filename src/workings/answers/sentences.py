"""Lines and sentences of a completion: which of them says the answer, and what of it is the answer."""

import re
from collections.abc import Iterator

_MARKUP = r"[\s*_#>✅✓✔️–—•-]*"
_VERIFICATION = re.compile(
    rf"^{_MARKUP}(?:actually,?\s+)?(?:(?:let'?s|let us|let me|to|we can|you can|now|i will|i'll)\s+)?"
    r"(?:also\s+)?(?:quickly\s+)?"
    r"(?:double[- ]?)?(?:verif(?:y|ication|ying)|check(?:ing)?|sanity check|proof|p\.? ?s|indeed(?=[^=]*=)|note"
    r"|explanation|justification|rationale|hint|reasoning"
    r"|source|why|key (?:points?|takeaways?|idea)|takeaways?|remember|tip|important(?:ly)?)\b", re.IGNORECASE)
ASKED_BACK = r"(?:can|could|would) you (?:please )?(?:clarify|specify|provide|tell me|give me)"
"""What asks for more than the question says; behind it there is no answer yet."""
_FRIENDLY = re.compile(
    rf"^{_MARKUP}(?!{ASKED_BACK}\b)(?:(?:i|we) (?:really )?hope|hope (?:this|that)|(?:please )?let (?:me|us) know"
    r"|feel free"
    rf"|would you like|(?:do|can|did|could|have|are) you\b[^?]*\?"
    r"|do you (?:want|need|have)|if you (?:have|need|want|would|'d)|is there anything|happy to|i'?m happy"
    r"|thank|you'?re welcome"
    r"|good luck|great (?:job|question)|have a (?:great|nice)|any (?:other |more )?questions|don'?t hesitate"
    r"|please (?:ask|tell|note)"
    r"|i can also|shall i|want me to|disclaimer|end of (?:answer|solution)|qed|∎|confidence)", re.IGNORECASE)
_CONCLUSION = re.compile(rf"^{_MARKUP}(?:so|therefore|thus|hence|in total|in conclusion|finally|final|the "
                         rf"(?:final )?answer|answer"
                         r"|total|all ?together|together|combined|in all|all in all"
                         r"|consequently|overall|as a result|we (?:get|find|conclude|have)"
                         # German, French, Spanish and Italian; "also" with a verb behind it is German.
                         r"|∴|also (?:ist|sind|hat|haben|kostet|kosten|braucht|brauchen|beträgt|bleibt|bleiben|gibt)"
                         r"|somit|daher|folglich|donc|il reste donc|por lo tanto|entonces|quindi)\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?!\\[\])])(?=[A-Z*\\$(\[\"'“]|\d)|(?<=[.!?]\*\*)\s+|(?<=[。！？])")
VERBS_OF_CONCLUSION = ("(?:gives|makes|means|leaves|equals|brings|totals|(?:\\w+ ){0,3}round(?: up| down)? to"
                       "|(?:simplifies|reduces|comes|works out"
                       "|rounds(?: up| down)?|amounts|adds up|is equal|is equivalent) to|is the same as"
                       "|is enough (?:for|to \\w+)(?= \\d))")
"""Behind "which": what follows them is the result, and no remark about it."""
IN_TOTAL = r"[^,;=]*\b(?:in (?:total|all)|altogether)\b"
"""Behind "which is": what is said once more, summed up."""
# "which is 18 + 21 = 39": it says more than what stands before it.
_EQUATION = r"[^,;=\d]{1,40}[$€£]?\d[^,;=]{1,60}=[\s*$€£]{0,5}\d"
_REASON = re.compile(r"(?<![\s,;(—–-])[\s,;(—–-]*\b(?:because|since|due to|given that|, as"
                     r"|so that(?!['’]s|\s(?:is|will|would|be|[a-z]{2,}s|meant|left|made|gave)\b)"
                     r"|i\.\s?e\.|just (?:as|like)"
                     r"|that is,|namely|seeing that|for the (?:[a-z]+ )?reason|in order to(?=[^,]*$)"
                     rf"|(?<=, )(?:which(?! {VERBS_OF_CONCLUSION}\b)(?! is {IN_TOTAL})(?! {_EQUATION})"
                     r"|an? (?:average|rate|mean) of|where|as|whereas|while|given|but not|not|and not|rather than"
                     r"|instead of))\b.*", re.IGNORECASE | re.DOTALL)
# A period behind it ends no sentence: "Dr. Smith", "J. K. Rowling", "Samuel L. Jackson"; behind "Answer: B" it does.
_ABBREVIATED = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|Prof|St|vs|i\.e|e\.g|approx)\.$"
                          r"|\b(?!U\.)[A-Z]\.[A-Z]\.$"
                          r"|^\*\*(?:\d{1,2}|[A-J])\.$"
                          r"|(?:^|\b[A-Z]\. |\b(?!Answer|Option|Choice|Letter)[A-Z][a-z]+ )[A-Z]\.$")
# "15% of 240 is **36**." and then "Here's how: …": why it is so.
_EXPLAINED = re.compile(rf"^{_MARKUP}(?:here(?:['’]s| is) (?:how|why|(?:the|a) (?:quick )?(?:breakdown|calculation"
                        r"|reasoning|explanation))\b|(?:the )?(?:breakdown|calculations?|working|details)\W*$)",
                        re.IGNORECASE)
# A line of the list behind it: "- 10%: 24", "Add half of it: 36".
_DETAIL = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)])\s|[^.:]{2,40}:\s")
_ASIDE = re.compile(r"\b(?:for (?:comparison|reference)|by (?:comparison|the way)|incidentally)\b"
                    r"|^\W*(?:this|that) is (?:the (?:number|amount) of|how (?:many|much)|what)\b[^=:]*$"
                    r"|^\W*(?:(?:you|we|one) (?:can|could|may)|(?:this|it|that|the answer) (?:can|could|may)) also "
                    r"(?:be )?(?:written?|expressed?|stated?|write|rewritten)\b", re.IGNORECASE)
# A whole line in brackets, and one that goes on with a reason: "(7 days later …)", "since 2^9 = 512".
_REMARK = re.compile(rf"^{_MARKUP}(?:\((?=[^()]*[^\W\d_]{{3}})(?:[^()\s]+ ){{3,}}[^()]*\)\W*$|(?-i:since|because)\b"
                     r"|where \W{0,3}\w(?:_\w)?\W{0,3} (?:is|denotes|represents) (?:an?|any|the)\b"
                     r"|(?i:that(?:['’]s| is) (?:the|in) (?:[a-z-]+ ){1,2}form)\b"
                     r"|[^=/\\]*\bno common (?:factors?|divisors?)\b[^=/\\]*$)")
# A list that was not gone on with: "3. Choose the operation." and then "4.".
_LIST_MARK, _LIST_ITEM = re.compile(r"\d{1,2}[.)]"), re.compile(r"\d{1,2}[.)]\s")
_BOLD = re.compile(r"\*\*[^*]*[^*:]\*\*(?!:)")
_EQUATION_LAST = re.compile(r", [^,=]{1,60} = [^,=]{1,60}$")
# "print(total)  # 36": what a program prints, as its comment says.
_PRINTED = re.compile(r"print\([^#\n]*\)\s*#\s*(?:(?:output|prints?|result)\b\W*)?(?=\S)", re.IGNORECASE)
_CORRECTION = re.compile(r"^\W*(?:wait|actually|hmm|no|but|however|correction|sorry|oops)\b"
                         r"|\b(?:wrong|incorrect|mistaken?(?! for\b)|not (?:right|correct|true|sure))\b", re.IGNORECASE)
_DEFINITION = re.compile(r"(?!(?:Its|Their|His|Her|There|Some|Many|Most|People)\b|.*\b(?:not|might|may|if)\b)"
                         r"(?:[^,;?]{2,80}\s(?:is|are|was|were)\s(?:(?:the|an?)\s|[A-Z\d*])"
                         r"|(?:[^,;?]{2,40},\s)?[Ii]t['’]s\s(?:an?\s)?[*A-Z])[^?]*$")
# "Tin.", "The Pacific Ocean.": a name or a noun with what stands before it.
_FEW_WORDS = re.compile(r"\W{0,3}(?:[^\W\d_][\w.'’-]{0,30}\s){0,3}[^\W\d_][\w'’-]{0,30}\W{0,3}\.\W{0,3}")
_NO_NAME = re.compile(r"^\W*(?:sure|okay|ok|certainly|of course|absolutely|exactly|well|yes|no|true|false|hello|hi|hey"
                      r"|thanks?|sorry|hmm|al(?:l )?right|i|we|it|this|that|there|let|step|first|here)\b"
                      r"|\b(?:is|are|was|were|has|have|had|do|does|did|can|will|not|[a-z]+ed|[a-z]+ing|good|right|correct"
                      r"|question|problem|point|answer|solution|explanation|note|one|job)\b", re.IGNORECASE)
MAX_LINE = 2_000
"""Characters of a line that are looked at: its end."""
MAX_LINES = 2_000
"""Last lines of a text that are looked at."""


def last_lines(text: str) -> list[str]:
    """The lines of a text that are not blank, without friendly ones and verifications behind the answer."""
    lines = [_PRINTED.sub("", line.strip()[-MAX_LINE:], count=1)
             for line in text[-200_000:].split("\n") if line.strip()][-MAX_LINES:]
    if len(lines) > 2 and _EXPLAINED.match(lines[1]) and all(map(_DETAIL.match, lines[2:])) and re.fullmatch(
            r"\*\*[^*]*\d[^*]*[^*:]\*\*\.?", lines[0]):
        return lines[:1]
    cut = len(lines)
    # From the end, because a verification may be followed by a new conclusion, which then counts.
    for index in range(len(lines) - 1, 0, -1):
        if _CONCLUSION.match(lines[index]):
            break
        if _VERIFICATION.match(lines[index]) or (
                _EXPLAINED.match(lines[index]) and re.search(r"\*\*[^*\n]*\d[^*\n]*\*\*", lines[index - 1])):
            cut = index
    answer_lines = [line for line in lines[:cut] if not _FRIENDLY.match(line)]
    while len(answer_lines) > 1 and (_REMARK.match(answer_lines[-1]) or _ASIDE.search(answer_lines[-1]) or (
            _LIST_MARK.fullmatch(answer_lines[-1]) and _LIST_ITEM.match(answer_lines[-2]))):
        answer_lines.pop()
    return answer_lines


def sentences(line: str) -> list[str]:
    """The sentences of a line, without friendly ones, and verifications and remarks in brackets behind another one."""
    split = list(_split(line))
    kept = [sentence for index, sentence in enumerate(split) if not _FRIENDLY.match(sentence) and not (
        index and (_VERIFICATION.match(sentence) or _ASIDE.search(sentence)
                   or (sentence.startswith("(") and sentence.endswith(")"))))]
    return kept or split[:1]


def up_to_bold(line: str) -> list[str]:
    """The sentences of a line; where only one of them has bold text and none corrects it or concludes, up to that one.

    >>> up_to_bold("It has **206 bones**. Babies have more.")
    ['It has **206 bones**.']
    """
    statements = sentences(line)
    bold = [at for at, sentence in enumerate(statements) if _BOLD.search(sentence)]
    if len(bold) == 1 and not any(is_conclusion(sentence) or _CORRECTION.search(sentence)
                                  for sentence in statements[bold[0] + 1:]):
        return statements[:bold[0] + 1]
    return statements


def bold_opening(lines: list[str]) -> str:
    """The first of several lines where it alone is bold, as a whole, and no later one concludes or corrects; or "".

    >>> bold_opening(["**y = 4 - x**", "Its slope is -1."])
    '**y = 4 - x**'
    """
    first, *others = lines or [""]
    if not others or not re.fullmatch(r"\*\*[^*]+[^*:]\*\*\.?", first):
        return ""
    return "" if any("**" in line or is_conclusion(line) or _CORRECTION.search(line) for line in others) else first


def bare_opening(lines: list[str]) -> str:
    """The first sentence of a text of one line where it is a number of two digits or more; or "".

    None where a later sentence concludes, calculates or corrects.

    >>> bare_opening(["206. At birth there are about 300."])
    '206.'
    """
    told = sentences(lines[0]) if len(lines) == 1 else []
    return _unchanged(told) if len(told) > 1 and re.fullmatch(r"\W*\d[\d,.]*\d\W*\.\W*", told[0]) else ""


def named_opening(lines: list[str]) -> str:
    """The first sentence of a text of one line where it is a few words without a verb, and the rest explains it; or "".

    >>> named_opening(["Tin. The symbol Sn comes from the Latin word stannum."])
    'Tin.'
    """
    statements = sentences(lines[0]) if len(lines) == 1 else []
    is_name = len(statements) > 1 and _FEW_WORDS.fullmatch(statements[0]) and not _NO_NAME.search(statements[0])
    return _unchanged(statements) if is_name else ""


def explained_opening(lines: list[str], question: str) -> str:
    """The first sentence of a text of one line where it is a number and what is counted, and the rest explains it.

    The rest says numbers of the question alone, and no result.

    >>> explained_opening(["288 apples. Each crate holds 36, so we multiply by 8."], "8 crates, 36 apples each?")
    '288 apples.'
    """
    statements = sentences(lines[0]) if len(lines) == 1 else []
    if len(statements) < 2 or not re.fullmatch(r"\W*\d[\d,.]*\d\W{0,3}(?:\s[a-z]+){1,3}\W*\.\W*", statements[0]):
        return ""
    question_numbers, opening_numbers, explaining_numbers = (
        set(re.findall(r"\d+", text)) for text in (question, statements[0], " ".join(statements[1:])))
    explains = explaining_numbers and explaining_numbers <= question_numbers and not opening_numbers <= question_numbers
    return _unchanged(statements) if explains else ""


def _unchanged(told: list[str]) -> str:
    """The first of some sentences; "" where a later one concludes, calculates or corrects."""
    return "" if any("=" in each or is_conclusion(each) or _CORRECTION.search(each) for each in told[1:]) else told[0]


def last_definition(told: list[str]) -> str:
    """The last of some sentences that says what something is; the last of all where none does or one corrects it.

    >>> last_definition(["Canberra is the capital of Australia.", "Many would say Sydney."])
    'Canberra is the capital of Australia.'
    """
    at = next((at for at in reversed(range(len(told))) if _DEFINITION.match(told[at]) or _BOLD.search(told[at])
               or (at == len(told) - 1 and _EQUATION_LAST.search(told[at]))), -1)
    return told[-1] if any(_CORRECTION.search(each) for each in told[at + 1:]) else told[at]


def _split(line: str) -> Iterator[str]:
    start = 0
    for end in _SENTENCE_END.finditer(line):
        if line[start:end.start()].strip() and not _ABBREVIATED.search(line, max(start, end.start() - 40), end.start()):
            yield line[start:end.start()]
            start = end.end()
    if line[start:].strip():
        yield line[start:]


def corrects(sentence: str) -> bool:
    """Whether a sentence takes back what stands before it ("Wait, …", "that is wrong")."""
    return _CORRECTION.search(sentence) is not None


def is_conclusion(line: str) -> bool:
    """Whether a line begins as a conclusion does ("So", "Therefore", "In total")."""
    return _CONCLUSION.match(line) is not None


def without_reason(sentence: str) -> str:
    """A sentence up to its reason ("12 because …", "Paris, which …"); the whole of it where it begins with one."""
    cut = _REASON.sub("", sentence, count=1).rstrip(" ,;(—–-")
    return cut if cut.strip() else sentence


def without_markup(text: str) -> str:
    """A text without what surrounds it: bold, quotation marks, headings, white space and a final period."""
    # A heading or a quotation; "#42" and ">30" say something else.
    text = re.sub(r"^(?:#{2,}|[#>]+(?=\s))", "", text.strip()).strip().strip("*_`\"“” ")
    # "0.333..." means more than "0.333".
    return (text if text.endswith("...") else text.rstrip(".,;:")).strip("*_`\"“” ").strip()


def tidy(text: str) -> str:
    """A text as an answer: without markup, delimiters of mathematics and a final period."""
    marked = re.sub(r"^(?:\\[\[(]|\$\$)\s*|\s*(?:\\[\])]|\$\$)\.?$", "", text.strip())
    text = without_markup(marked)
    if text.count("**") % 2:
        # Of "**Paris** is the capital" not the whole was bold.
        text = f"**{text}" if marked.startswith("**") else f"{text}**"
    inner = re.fullmatch(r"\$([^$]*)\$", text)
    return inner[1].strip() if inner and not inner[1].lstrip().startswith("\\$") else text
