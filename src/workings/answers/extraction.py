"""What a search for an answer gives back."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["number", "choice", "yes_no", "text"]
"""What is expected: a number, the letter of a choice, yes/no/true/false, or any other text."""

NO_RULE = "none"


@dataclass(frozen=True, slots=True)
class Extraction:
    """The answer found in a completion (empty where none was) and the rule that found it."""

    text: str
    rule: str
