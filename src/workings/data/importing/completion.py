r"""Splits one text into its steps and its answer, in the notations that files and models use.

    <think>3+4=7</think>7                                      tags; also <reasoning>, <answer>
    <|channel>thought\n3+4=7<channel|>7                        the channel of Gemma 4
    3+4=7\n#### 7                                              GSM8K
    3+4=7\n\boxed{7}                                           a box

Marks are found by the rules of `workings.answers.extract`. Sentences such as "The answer is 7" do not count here,
because a text may have no answer.
"""

import re
from collections.abc import Collection

from workings.answers.extract import MAX_LINE, extract
from workings.answers.thinking import OTHER_THINKING

_ONLY_BOX = re.compile(
    r"[\s*$:,.]*(?:(?:so|thus|therefore|hence|the|it|final|answer|is|\\\(|\\\[)[\s*$:,.]*)*"
    r"\\(?:boxed|fbox)\s*\{.*\}[\s*$.]*(?:\\\)|\\\])?[\s*$.]*", re.IGNORECASE)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_TAGS = re.compile(r"</?(?:think|reasoning|answer)>")
_CHANNEL_BEGINS, _CHANNEL_ENDS = "<|channel>", "<channel|>"
_ANNOTATION = re.compile(r"<<([^<>\n]*)>>")

StepsAndAnswer = tuple[tuple[str, ...], str]


def marked_answer(text: str) -> str:
    r"""The answer that a text marks; empty where it marks none.

    >>> marked_answer(r"3+4=7, so \boxed{7}."), marked_answer("It is 7.")
    ('7', '')
    """
    marked = [line.lstrip().startswith("####") for line in text.strip().splitlines()]
    # Other lines with `####` are headings of Markdown.
    hashes = ["hashes"] if sum(marked) == 1 and marked[-1] else []
    return extract(text, "text", ("answer_tag", *hashes, "boxed")).text


def final_answer(text: str) -> str:
    """The marked answer of a text, else the text."""
    return marked_answer(text) or text.strip()


def before_box(text: str) -> str:
    """A text without its last line, if that is only the box with the answer."""
    head, _, last = text.strip().rpartition("\n")
    return head if len(last) <= MAX_LINE and _ONLY_BOX.fullmatch(last) else text


def lines_of(text: str) -> tuple[str, ...]:
    """The steps of a text: its lines without blank ones and without white space at their ends."""
    return tuple(line.rstrip() for line in text.strip().splitlines() if line.strip())


def split_tagged(text: str) -> StepsAndAnswer:
    """Steps and answer of `<think>…</think>…`, `<reasoning>…</reasoning><answer>…</answer>` and mixtures of them.

    Raises `ValueError` if a tag is missing, open or repeated, or text would be lost.
    """
    tags = _TAGS.findall(text)
    for name in ("think", "reasoning", "answer"):
        opened, closed = tags.count(f"<{name}>"), tags.count(f"</{name}>")
        if opened > 1 or closed > 1:
            raise ValueError("two answers" if name == "answer" else f"more than one <{name}> block")
        # The prompt often ends with `<think>`, so the text may lack it.
        may_lack_opening = name == "think" and closed == 1
        if opened != closed and not may_lack_opening:
            raise ValueError(f"<{name}> and </{name}> do not pair")
    if not tags:
        raise ValueError("no <think>, <reasoning> or <answer> tag")
    if "</think>" in tags and "</reasoning>" in tags:
        raise ValueError("both a <think> and a <reasoning> block")
    before, reasoning, rest = "", "", text
    for name in ("think", "reasoning"):
        if f"</{name}>" in text:
            up_to_end, rest = text.split(f"</{name}>")
            before, _, reasoning = up_to_end.rpartition(f"<{name}>")
    answer = _ANSWER.search(rest)
    around_answer = rest[:answer.start()] + rest[answer.end():] if answer else ""
    if before.strip() or around_answer.strip():
        raise ValueError("text outside of the tags, which would be lost")
    return lines_of(reasoning), _without_box(answer.group(1) if answer else rest)


def _without_box(answer: str) -> str:
    """The content of an answer that is only a box; any other answer as it is."""
    return answer.strip() if before_box(answer).strip() else final_answer(answer)


def split_hashes(text: str) -> StepsAndAnswer:
    """Steps and answer of a text that ends with one line `#### answer` (GSM8K). Raises `ValueError` for other texts."""
    lines = text.strip().splitlines()
    marked = [line.lstrip().startswith("####") for line in lines]
    if not any(marked):
        raise ValueError("no line that begins with ####")
    if sum(marked) > 1:
        raise ValueError("two answers: more than one line begins with ####")
    # Text after the answer would be lost, maybe a correction.
    if not marked[-1]:
        raise ValueError("text after the line that begins with ####")
    return lines_of("\n".join(lines[:-1])), _without_box(lines[-1].lstrip().removeprefix("####"))


def _split_block(text: str, opening: str, ending: str, marks: Collection[str]) -> StepsAndAnswer:
    """Steps and answer of a text that begins with a block of thinking. Raises `ValueError` for ``marks`` elsewhere."""
    before, begun, rest = text.partition(opening)
    thought, ended, answer = rest.partition(ending)
    if before.strip() or not (begun and ended) or any(mark in thought + answer for mark in marks):
        raise ValueError("not one block of thinking at the beginning, with the answer after it")
    return lines_of(thought), answer.strip()


def split_any(text: str) -> StepsAndAnswer:
    """Steps and answer in any notation; a text without one is the answer. Raises `ValueError` for a broken notation."""
    # The channel first, because thinking may contain any other notation.
    if _CHANNEL_BEGINS in text or _CHANNEL_ENDS in text:
        return _split_block(text, f"{_CHANNEL_BEGINS}thought\n", _CHANNEL_ENDS, (_CHANNEL_BEGINS, _CHANNEL_ENDS))
    if _TAGS.search(text):
        return split_tagged(text)
    for opening, ending in OTHER_THINKING.items():
        if ending in text:
            return _split_block(text, opening, ending, [*OTHER_THINKING, *OTHER_THINKING.values()])
    lines = text.strip().splitlines()
    # Other lines with `####` are headings of Markdown.
    if lines and lines[-1].startswith("#### ") and sum(line.startswith("####") for line in lines) == 1:
        return split_hashes(text)
    if answer := marked_answer(text):
        return lines_of(before_box(text)), answer
    return (), text.strip()


def take_annotations(step: str) -> tuple[str, list[str]]:
    """A step without its calculator annotations (`48/2 = <<48/2=24>>24`), and the annotations."""
    return _ANNOTATION.sub("", step), _ANNOTATION.findall(step)
