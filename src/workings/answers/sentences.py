"""Lines and sentences of a completion: which of them says the answer, and what of it is the answer."""

import re
from collections.abc import Iterator

_MARKUP = r"[\s*_#>✅✓✔️–—•-]*"
_VERIFICATION = re.compile(
    rf"^{_MARKUP}(?:(?:let'?s|let us|let me|to|we can|you can|now|i will|i'll)\s+)?(?:also\s+)?(?:quickly\s+)?"
    r"(?:double[- ]?)?(?:verif(?:y|ication|ying)|check(?:ing)?|sanity check|proof|p\.? ?s|note|explanation"
    r"|justification|rationale|hint|reasoning"
    r"|source|why|key points?)\b", re.IGNORECASE)
_FRIENDLY = re.compile(
    rf"^{_MARKUP}(?:(?:i|we) (?:really )?hope|hope (?:this|that)|(?:please )?let (?:me|us) know|feel free"
    rf"|would you like|(?:do|can|did|could|have|are) you\b[^?]*\?"
    r"|do you (?:want|need|have)|if you (?:have|need|want|would|'d)|is there anything|happy to|i'?m happy"
    r"|thank|you'?re welcome"
    r"|good luck|great (?:job|question)|have a (?:great|nice)|any (?:other |more )?questions|don'?t hesitate"
    r"|please (?:ask|tell|note)"
    r"|i can also|shall i|want me to|disclaimer|end of (?:answer|solution)|qed|∎|confidence)", re.IGNORECASE)
_CONCLUSION = re.compile(rf"^{_MARKUP}(?:so|therefore|thus|hence|in total|in conclusion|finally|final|the "
                         rf"(?:final )?answer|answer"
                         r"|total|altogether|consequently|overall|as a result|we (?:get|find|conclude|have)"
                         r"|∴)\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z*\\$(\[\"'“]|\d)|(?<=[.!?]\*\*)\s+|(?<=[。！？])")
_REASON = re.compile(r"(?<![\s,;(—–-])[\s,;(—–-]*\b(?:because|since|due to|given that|, as|so that|i\.\s?e\."
                     r"|that is,|namely|seeing that|for the reason"
                     r"|(?<=, )(?:which(?! (?:gives|makes|means|leaves|equals|brings|totals)\b)"
                     r"|where|as|whereas|while|given|but not|not|and not|rather than|instead "
                     r"of))\b.*", re.IGNORECASE | re.DOTALL)
# A period behind it ends no sentence: "Dr. Smith", "J. K. Rowling", "Samuel L. Jackson"; behind "Answer: B" it does.
_ABBREVIATED = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|Prof|St|vs)\.$"
                          r"|(?:^|\b[A-Z]\. |\b(?!Answer|Option|Choice|Letter)[A-Z][a-z]+ )[A-Z]\.$")
MAX_LINE = 2_000
"""Characters of a line that are looked at: its end."""
MAX_LINES = 2_000
"""Last lines of a text that are looked at."""


def last_lines(text: str) -> list[str]:
    """The lines of a text that are not blank, without friendly ones and verifications behind the answer."""
    lines = [line.strip()[-MAX_LINE:] for line in text[-200_000:].split("\n") if line.strip()][-MAX_LINES:]
    cut = len(lines)
    # From the end, because a verification may be followed by a new conclusion, which then counts.
    for index in range(len(lines) - 1, 0, -1):
        if _CONCLUSION.match(lines[index]):
            break
        if _VERIFICATION.match(lines[index]):
            cut = index
    return [line for line in lines[:cut] if not _FRIENDLY.match(line)]


def sentences(line: str) -> list[str]:
    """The sentences of a line, without friendly ones and verifications behind another one."""
    split = list(_split(line))
    kept = [sentence for index, sentence in enumerate(split)
            if not _FRIENDLY.match(sentence) and not (index and _VERIFICATION.match(sentence))]
    return kept or split[:1]


def _split(line: str) -> Iterator[str]:
    start = 0
    for end in _SENTENCE_END.finditer(line):
        if line[start:end.start()].strip() and not _ABBREVIATED.search(line, max(start, end.start() - 40), end.start()):
            yield line[start:end.start()]
            start = end.end()
    if line[start:].strip():
        yield line[start:]


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
