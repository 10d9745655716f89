"""What a completion says, without what it thinks: an answer in the thinking is none."""

import re
from dataclasses import dataclass

# Marks of several families of models, so that completions from elsewhere are read rightly too.
OTHER_THINKING = {"<thinking>": "</thinking>", "<thought>": "</thought>", "<reflection>": "</reflection>",
                  "<scratchpad>": "</scratchpad>", "[THINK]": "[/THINK]"}
"""Marks of thinking that this project writes in no form of its own, each with its end."""
_ENDS = ("</think>", "</reasoning>", "<channel|>", "<|channel>final<|message|>", *OTHER_THINKING.values())
_OPENINGS = ("<think>", "<reasoning>", "<|channel>thought", "<|channel>analysis<|message|>", *OTHER_THINKING)
_MARK = re.compile("|".join(re.escape(mark) for mark in (*_ENDS, *_OPENINGS)))


@dataclass(frozen=True, slots=True)
class Said:
    """The part of a completion in which an answer is looked for."""

    text: str
    thought: bool = False
    """Thinking stood before it and was ended."""
    truncated: bool = False
    """The completion was cut off by the limit on new tokens, or ends within a mark that it opened."""


def said(text: str, *, truncated: bool = False) -> Said:
    """What stands behind the end of the thinking; where nothing does, what stands outside of it.

    Thinking that was never ended is no answer. ``<reasoning>`` without its end is left out up to ``<answer>``.
    """
    outside: list[str] = []
    start, thinking, ended = 0, False, False
    for mark in _MARK.finditer(text):
        if mark.group() in _ENDS:
            # What stands before an end belongs to the thinking, also where the prompt held its beginning.
            if not thinking:
                outside.clear()
            thinking, ended = False, True
        elif not thinking:
            outside.append(text[start:mark.start()])
            thinking = True
        start = mark.end()
    if not thinking:
        last = text[start:]
    else:
        # A trained form whose one closing tag was forgotten still names its answer.
        last = text[text.rfind("<answer>", start):] if "<reasoning>" in text and "<answer>" in text[start:] else ""
    if last.strip():
        outside = [last]
    return Said("\n".join(outside), ended, truncated or _open_at_end(last))


_OPENED = (("\\boxed{", "}"), ("<answer>", "</answer>"), ("\\[", "\\]"), ("\\(", "\\)"))


def _open_at_end(text: str) -> bool:
    """Whether a text ends within a mark that it opened."""
    return any((at := text.rfind(opening)) >= 0 and closing not in text[at + len(opening):]
               for opening, closing in _OPENED)
