"""Lines and sentences of a completion, and an answer without what surrounds it."""

import re

MAX_TEXT = 20_000
"""Trailing characters of a text that are split into sentences."""
_END = re.compile(r"(?<=[.!?])[\"”’)*]{0,3}\s+(?=[^a-z\s])|(?<=[。！？])|\s*\n\s*")
# A period after it ends no sentence: "Dr. Smith", "J. K. Rowling", "3. Add them".
_ABBREVIATED = re.compile(
    r"(?:\b(?:Dr|Mr|Mrs|Ms|Prof|St|Jr|vs|No|Rs|i\.e|e\.g|approx|ca?)|(?:^|[\s.(])[A-Z]|(?:^|\n)\s*\d{1,2})\.$")


def sentences(text: str) -> list[str]:
    """The sentences of the end of a text, in order; a line ends one.

    >>> sentences("Dr. Smith has 3.5 apples. So the answer is 4.")
    ['Dr. Smith has 3.5 apples.', 'So the answer is 4.']
    """
    text = text[-MAX_TEXT:]
    found, start = list[str](), 0
    for end in _END.finditer(text):
        before = text[max(start, end.start() - 40):end.start()]
        if "\n" in end.group() or not _ABBREVIATED.search(before):
            found.append(text[start:end.start()].strip())
            start = end.end()
    return [sentence for sentence in (*found, text[start:].strip()) if sentence]


def tidy(text: str) -> str:
    """A text as an answer: without bold, quotation marks, delimiters of mathematics and a final period.

    >>> tidy("**$x + 1$**."), tidy("> > }.")
    ('x + 1', '> > }')
    """
    text = re.sub(r"^(?:\\[\[(]|\$\$)\s*|\s*(?:\\[\])]|\$\$)\.?$", "", text.strip())
    text = text.strip("*_`\"“” ").rstrip(".,;:").strip("*_`\"“” ")
    inner = re.fullmatch(r"\$([^$]*)\$", text)
    return inner[1].strip() if inner and not inner[1].lstrip().startswith("\\$") else text
