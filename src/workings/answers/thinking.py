"""The part of a completion after its thinking: an answer in the thinking does not count."""

import re
from dataclasses import dataclass

# Marks of several families of models, so that completions from elsewhere are read rightly too.
OTHER_THINKING = {"<thinking>": "</thinking>", "<thought>": "</thought>", "<reflection>": "</reflection>",
                  "<scratchpad>": "</scratchpad>", "[THINK]": "[/THINK]", "◁think▷": "◁/think▷",
                  "<seed:think>": "</seed:think>", "<|START_THINKING|>": "<|END_THINKING|>",
                  "<|begin_of_thought|>": "<|end_of_thought|>"}
"""Marks of thinking that this project writes in no form, each with its end."""
_ENDS = ("</think>", "</reasoning>", "<channel|>", "<|channel|>final<|message|>", "Here is my response:",
         "[BEGIN FINAL RESPONSE]", *OTHER_THINKING.values())
_OPENINGS = ("<think>", "<reasoning>", "<|channel>thought", "<|channel|>analysis<|message|>",
             "Here is my thought process:", *OTHER_THINKING)
# Search after the first characters of marks: trying each mark at each character is slow.
_MARK = re.compile(r"(?=[<[◁h])(?:" + "|".join(re.escape(mark) for mark in (*_ENDS, *_OPENINGS)) + ")", re.IGNORECASE)
_CLOSING = frozenset(map(str.casefold, _ENDS))
# Control tokens that a tokenizer left in the text, and other marks around the answer.
_CONTROL = re.compile(r"<\|\w{2,30}\|>|\[END FINAL RESPONSE\]|</?(?:conclusion|response|output|final_answer|result)>",
                      re.IGNORECASE)
# Tokens that end a text or a turn: what follows belongs to another conversation.
_ENDED = (r"<(?:\|(?:endoftext|end_of_text|im_end|eot_id|eot|end_of_turn|return)\|"
          r"|eos|/s|end_of_turn|turn\||｜end▁of▁sentence｜)>")
_BEFORE_END = re.compile(rf"(?:\s*+{_ENDED})*+(?P<text>.*?)(?P<end>{_ENDED}|\Z)", re.DOTALL)
_NEXT_QUESTION = re.compile(r"\n\s*(?:###\s*(?:question|problem|instruction|input)\b"
                            r"|(?:question|q|problem|human|user|student|instruction)\s*\d{0,4}\s*:)", re.IGNORECASE)
SHORT = 100
"""Characters of a line that may be an answer as a whole."""
_ANSWERED = re.compile(r"####|\\boxed|\banswer\b|</answer>|=\s*\W{0,3}\d", re.IGNORECASE)
# A display of one line and a matrix, whose marks are on their own lines.
_DISPLAY = re.compile(r"(\\\[|\$\$)[^\S\n]*\n[^\S\n]*(\S[^\n]*)\n[^\S\n]*(?=\\\]|\$\$)")
_MATRIX = re.compile(r"\\begin\{(\w{0,10}matrix)\}(?:[^\n]{0,300}\n){1,12}?[^\n]{0,300}?\\end\{\1\}")


@dataclass(frozen=True, slots=True)
class AfterThinking:
    """The part of a completion that is searched for an answer."""

    text: str
    thought: bool = False
    """Thinking stood before it and was ended."""
    truncated: bool = False
    """The completion was cut off by the limit on new tokens, or ends within a mark that it opened."""
    question: str = ""
    """The question it answers, or "" if unknown."""


def text_after_thinking(text: str, *, truncated: bool = False, question: str = "") -> AfterThinking:
    """The text after the end of the thinking; if empty, the text outside it.

    Thinking that was never ended is no answer. ``<reasoning>`` without its end is left out up to ``<answer>``. A token
    that ends the text or the turn ends the answer.
    """
    if (before_end := _BEFORE_END.match(text)) is not None:
        text, truncated = before_end["text"], truncated and not before_end["end"]
    outside: list[str] = []
    start, thinking, ended = 0, False, False
    for mark in _MARK.finditer(text):
        if mark.group().casefold() in _CLOSING:
            # Text before an end belongs to the thinking, even if the prompt had its beginning.
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
        # A trained form without its closing tag still has its answer.
        last = text[text.rfind("<answer>", start):] if "<reasoning>" in text and "<answer>" in text[start:] else ""
    if last.strip():
        outside = [last]
    spoken = _before_next_question("\n".join(outside))
    spoken = _MATRIX.sub(lambda matrix: matrix[0].replace("\n", " "), spoken)
    return AfterThinking(_CONTROL.sub(" ", _DISPLAY.sub(r"\1 \2 ", spoken)), ended,
                         truncated or _open_at_end(last), question)


def _before_next_question(text: str) -> str:
    """Cuts off further questions that an untuned model writes after its answer."""
    answered = _ANSWERED.search(text)
    mark = _NEXT_QUESTION.search(text, answered.end()) if answered else None
    # A short line and then a question: "Au", and "Q: What is the chemical symbol for silver?"
    if (first := _NEXT_QUESTION.search(text)) and 0 < len(text[:first.start()].strip()) <= SHORT and (
            "\n" not in text[:first.start()].strip() and not text[:first.start()].rstrip().endswith((":", "?"))):
        mark = first
    return text[:mark.start()] if mark else text


_OPENED = (("\\boxed{", "}"), ("<answer>", "</answer>"), ("\\[", "\\]"), ("\\(", "\\)"))


def _open_at_end(text: str) -> bool:
    """Whether a text ends within a mark that it opened; an answer of one short line needs no closing tag."""
    _, tag, answer = text.rpartition("<answer>")
    if tag and "\n" not in answer.strip() and 0 < len(answer.strip()) <= SHORT and "</" not in answer:
        return False
    return any((at := text.rfind(opening)) >= 0 and closing not in text[at + len(opening):]
               for opening, closing in _OPENED)
