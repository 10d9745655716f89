"""The part of a completion after its thinking: an answer in the thinking does not count."""

import re
from dataclasses import dataclass

# Marks of several families of models, so that completions from elsewhere are read rightly too.
OTHER_THINKING = {"<thinking>": "</thinking>", "<thought>": "</thought>", "<reflection>": "</reflection>",
                  "<scratchpad>": "</scratchpad>", "[THINK]": "[/THINK]", "◁think▷": "◁/think▷",
                  "<seed:think>": "</seed:think>", "<|START_THINKING|>": "<|END_THINKING|>",
                  "<|begin_of_thought|>": "<|end_of_thought|>"}
"""Marks of thinking that this project does not write, each with its end."""
_ENDS = ("</think>", "</reasoning>", "<channel|>", "<|channel|>final<|message|>", "Here is my response:",
         "[BEGIN FINAL RESPONSE]", *OTHER_THINKING.values())
_OPENINGS = ("<think>", "<reasoning>", "<|channel>thought", "<|channel|>analysis<|message|>",
             "Here is my thought process:", *OTHER_THINKING)
# Search after the first characters of marks: trying each mark at each character is slow.
_MARK = re.compile(r"(?=[<[◁h])(?:" + "|".join(re.escape(mark) for mark in (*_ENDS, *_OPENINGS)) + ")", re.IGNORECASE)
_CLOSING = frozenset(map(str.casefold, _ENDS))
# Tokens that end a text or a turn: what follows belongs to another conversation.
_ENDED = (r"<(?:\|(?:endoftext|end_of_text|im_end|eot_id|eot|end_of_turn|return)\|"
          r"|eos|/s|end_of_turn|turn\||｜end▁of▁sentence｜)>")
_BEFORE_END = re.compile(rf"(?:\s*+{_ENDED})*+(?P<text>.*?)(?P<end>{_ENDED}|\Z)", re.DOTALL)
_NEXT_QUESTION = re.compile(r"\n\s*(?:###\s*(?:question|problem|instruction|input)\b"
                            r"|(?:question|q|problem|human|user|student|instruction)\s*\d{0,4}\s*:)", re.IGNORECASE)
# A mark of an answer, or a first line that is short enough to be the answer.
_ANSWERED = re.compile(r"####|\\boxed|\banswer\b|</answer>|=\s*\W{0,3}\d|\A[^\n:?]{1,100}(?=\n)", re.IGNORECASE)
# A display of one line, whose marks are on their own lines.
_DISPLAY = re.compile(r"(\\\[|\$\$)[^\S\n]*\n[^\S\n]*(\S[^\n]*)\n[^\S\n]*(?=\\\]|\$\$)")


@dataclass(frozen=True, slots=True)
class AfterThinking:
    """The part of a completion that is searched for an answer."""

    text: str
    truncated: bool = False
    """The completion was cut off by the limit on new tokens."""
    question: str = ""
    """The question it answers, or "" if unknown."""


def text_after_thinking(text: str, *, truncated: bool = False, question: str = "") -> AfterThinking:
    """The text after the end of the thinking; if that is empty, the text outside of it.

    Thinking without an end is no answer. A token that ends the text or the turn ends the answer, too.
    """
    before_end = _BEFORE_END.match(text)
    if before_end is not None:
        text, truncated = before_end["text"], truncated and not before_end["end"]
    outside: list[str] = []
    start, thinking = 0, False
    for mark in _MARK.finditer(text):
        if mark.group().casefold() in _CLOSING:
            # Text before an end belongs to the thinking, even if the prompt had its beginning.
            if not thinking:
                outside.clear()
            thinking = False
        elif not thinking:
            outside.append(text[start:mark.start()])
            thinking = True
        start = mark.end()
    last = "" if thinking else text[start:]
    spoken = last if last.strip() else "\n".join(outside)
    # An untuned model writes further questions after its answer.
    answered = _ANSWERED.search(spoken)
    further = _NEXT_QUESTION.search(spoken, answered.end()) if answered else None
    if further:
        spoken = spoken[:further.start()]
    return AfterThinking(_DISPLAY.sub(r"\1 \2 ", spoken), truncated, question)
