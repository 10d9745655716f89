"""Splits one text into reasoning and answer, in common notations, and finds the answer that a text marks.

Answers are found by the rules of `workings.answers.extract`; only marks count here. What a sentence says is found where
an answer is expected, and not in texts that may have no answer.
"""

import re
from collections.abc import Collection

from workings.answers.extract import MAX_LINE, extract
from workings.answers.thinking import OTHER_THINKING

_ONLY_BOX = re.compile(
    r"[\s*$:,.]*(?:(?:so|thus|therefore|hence|the|it|final|answer|is|\\\(|\\\[)[\s*$:,.]*)*"
    r"\\(?:boxed|fbox)\s*\{.*\}[\s*$.]*(?:\\\)|\\\])?[\s*$.]*", re.IGNORECASE)


def marked_answer(text: str) -> str:
    r"""The answer that a text marks; empty where it marks none.

    >>> marked_answer(r"3+4=7, so \boxed{7}."), marked_answer("It is 7.")
    ('7', '')
    """
    lines = text.strip().splitlines()
    # A heading of markdown begins with `####` as well.
    marked = [line.lstrip().startswith("####") for line in lines]
    hashes = ("hashes",) if sum(marked) == 1 and marked[-1] else ()
    return extract(text, "text", ("answer_tag", *hashes, "boxed")).text


def final_answer(text: str) -> str:
    """The marked answer of a text, else the text."""
    return marked_answer(text) or text.strip()


def before_box(text: str) -> str:
    """A text without its last line, where that is nothing but the box with the answer."""
    head, _, last = text.strip().rpartition("\n")
    return head if len(last) <= MAX_LINE and _ONLY_BOX.fullmatch(last) else text


_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_TAGS = re.compile(r"</?(?:think|reasoning|answer)>")
_CHANNEL = ("<|channel>", "<channel|>")
"""Around the thoughts of Gemma 4."""
_ANNOTATION = re.compile(r"<<([^<>\n]*)>>")


def lines_of(text: str) -> tuple[str, ...]:
    """The steps of a text: its lines without blank ones and without white space at their ends."""
    return tuple(line.rstrip() for line in text.strip().splitlines() if line.strip())


def split_tagged(text: str) -> tuple[tuple[str, ...], str]:
    """Steps and answer of `<think>…</think>…`, `<reasoning>…</reasoning><answer>…</answer>` and mixtures of them.

    Raises:
        ValueError: a tag is missing, open or repeated, or text would be lost.
    """
    # Count tags before splitting, so that a second block is not silently lost.
    parts = _TAGS.findall(text)
    for tag in ("think", "reasoning", "answer"):
        opened, closed = parts.count(f"<{tag}>"), parts.count(f"</{tag}>")
        # the opening <think> is often part of the prompt, and so missing from the text
        if opened > 1 or closed > 1:
            raise ValueError("two answers" if tag == "answer" else f"more than one <{tag}> block")
        if opened != closed and not (tag == "think" and closed == 1):
            raise ValueError(f"<{tag}> and </{tag}> do not pair")
    if not parts:
        raise ValueError("no <think>, <reasoning> or <answer> tag")
    if "</think>" in parts and "</reasoning>" in parts:
        raise ValueError("both a <think> and a <reasoning> block")
    before, reasoning, rest = _reasoning(text)
    answer = _ANSWER.search(rest)
    if before.strip() or (answer and (rest[:answer.start()] + rest[answer.end():]).strip()):
        raise ValueError("text outside of the tags, which would be lost")
    return lines_of(reasoning), _alone(answer.group(1) if answer else rest)


def _alone(answer: str) -> str:
    """An answer that is nothing but a box, without it."""
    return answer.strip() if before_box(answer).strip() else final_answer(answer)


def _reasoning(text: str) -> tuple[str, str, str]:
    for tag in ("think", "reasoning"):
        if f"</{tag}>" in text:
            opened, rest = text.split(f"</{tag}>")
            before, mark, reasoning = opened.partition(f"<{tag}>")
            return (before, reasoning, rest) if mark else ("", opened, rest)
    return "", "", text


def split_hashes(text: str) -> tuple[tuple[str, ...], str]:
    """Steps and answer of a text that ends with one line `#### answer` (GSM8K). Raises `ValueError` for any other."""
    lines = text.strip().splitlines()
    marked = [number for number, line in enumerate(lines) if line.lstrip().startswith("####")]
    if not marked:
        raise ValueError("no line that begins with ####")
    if len(marked) > 1:
        raise ValueError("two answers: more than one line begins with ####")
    # Text after the answer would be lost, maybe a correction.
    if marked[0] != len(lines) - 1:
        raise ValueError("text after the line that begins with ####")
    return lines_of("\n".join(lines[:-1])), _alone(lines[-1].lstrip().removeprefix("####"))


def _block(text: str, opening: str, ending: str, marks: Collection[str]) -> tuple[tuple[str, ...], str]:
    """Steps and answer of a text that begins with one block of thinking. `ValueError` for ``marks`` anywhere else."""
    before, begun, rest = text.partition(opening)
    thought, ended, answer = rest.partition(ending)
    if before.strip() or not (begun and ended) or any(mark in thought + answer for mark in marks):
        raise ValueError("not one block of thinking at the beginning, with the answer after it")
    return lines_of(thought), answer.strip()


def split_any(text: str) -> tuple[tuple[str, ...], str]:
    """Steps and answer in any notation; a text without one is the answer. Raises `ValueError` for a broken notation."""
    # First, because thinking may contain any other notation.
    if any(mark in text for mark in _CHANNEL):
        return _block(text, f"{_CHANNEL[0]}thought\n", _CHANNEL[1], _CHANNEL)
    if _TAGS.search(text):
        return split_tagged(text)
    for opening, ending in OTHER_THINKING.items():
        if ending in text:
            return _block(text, opening, ending, [*OTHER_THINKING, *OTHER_THINKING.values()])
    lines = text.strip().splitlines()
    # A heading of markdown begins with #### as well; only a last and only line of that kind is an answer.
    if lines and lines[-1].startswith("#### ") and sum(line.startswith("####") for line in lines) == 1:
        return split_hashes(text)
    if answer := marked_answer(text):
        return lines_of(before_box(text)), answer
    return (), text.strip()


def take_annotations(step: str) -> tuple[str, list[str]]:
    """A step without its calculator annotations (`48/2 = <<48/2=24>>24`), and the annotations."""
    return _ANNOTATION.sub("", step), _ANNOTATION.findall(step)
