r"""Forms of conversations: what a chat template writes around the texts, whatever the texts are.

Most templates copy every text and look into none. Such a template is rendered once for a sequence of roles, with a
`_Sealed` object in place of each text. The result serves all conversations of these roles:

    <|im_start|>user\n  [text 0]  <|im_end|>\n<|im_start|>assistant\n
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import jinja2
from jinja2 import nodes

_STATEMENTS = (nodes.Output, nodes.For, nodes.If, nodes.Assign, nodes.Break, nodes.Continue)
"""Statements that write at once. Others, such as macros, give the template what was written, to look into it."""
# Random, so that nothing that a template writes can look like it.
_SECRET = secrets.token_hex(16)
_MARK = re.compile(rf"{_SECRET} (\d+) (raw|trimmed);")


class _LooksInside(BaseException):
    """A template asks something about a text. No `Exception`, because filters of Jinja catch those."""


def _refuse(*_: object) -> NoReturn:
    raise _LooksInside


class _Sealed:
    """A text that a template can write, trim and append to others. Every question about its characters is refused."""

    def __init__(self, mark: str, trimmed_mark: str = "") -> None:
        """The marks are written for the text and the trimmed text; the second one is empty if it is not known."""
        self._mark, self._trimmed_mark = mark, trimmed_mark

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """`str`, for templates that ask whether a content is a text or a list of parts."""
        return str

    def strip(self, characters: str | None = None) -> "_Sealed":
        """The trimmed text."""
        if characters is not None or not self._trimmed_mark:
            raise _LooksInside
        return _Sealed(self._trimmed_mark, self._trimmed_mark)

    def __add__(self, other: object) -> "_Sealed":
        return _Sealed(self._mark + _mark_of(other))

    def __radd__(self, other: object) -> "_Sealed":
        return _Sealed(_mark_of(other) + self._mark)

    # An operation that is missing here is an error in Python itself.
    __bool__ = __contains__ = __eq__ = __float__ = __format__ = __getitem__ = __hash__ = __iter__ = _refuse
    __len__ = __repr__ = __str__ = _refuse


def _mark_of(text: object) -> str:
    # Their real types: `isinstance` takes a sealed text for a text.
    if type(text) is _Sealed:
        return text._mark
    if type(text) is str:
        return text
    raise _LooksInside


def _written(value: object) -> object:
    """What a template writes for a value."""
    return _mark_of(value) if type(value) is _Sealed else value


class _Slot(NamedTuple):
    """A place for a text."""

    before: str
    """What the template writes since the slot before."""
    number: int
    """Number of the text in the conversation, from 0."""
    trimmed: bool
    """Whether the text is written without white space around it."""


@dataclass(frozen=True)
class ConversationForm:
    """What a template writes around the texts of a conversation."""

    slots: tuple[_Slot, ...]
    end: str
    """What the template writes after the last text."""

    def filled(self, texts: Sequence[str]) -> str:
        """The rendered conversation with these texts."""
        written: list[str] = []
        for before, number, trimmed in self.slots:
            text = texts[number]
            written += before, text.strip() if trimmed else text
        return "".join(written) + self.end


class ConversationForms:
    """The forms of a template's conversations, by their roles."""

    def __init__(self, environment: jinja2.Environment, source: str, names: Mapping[str, Any]) -> None:
        """``names``: variables of the template ``source`` besides `messages` and `add_generation_prompt`."""
        self._names = names
        self._found: dict[tuple[tuple[str, ...], bool], ConversationForm | None] = {}
        self._answered: dict[tuple[str, ...], tuple[ConversationForm, str] | None] = {}
        statements = environment.parse(source).find_all(nodes.Stmt)
        self._writes_at_once = all(isinstance(each, _STATEMENTS) and not getattr(each, "recursive", False)
                                   for each in statements)
        self._template = environment.overlay(finalize=_written).from_string(source)

    def find(self, roles: tuple[str, ...], add_generation_prompt: bool) -> ConversationForm | None:
        """The form of a conversation of these roles; None if the template looks into a text, or fails."""
        key = roles, add_generation_prompt
        if key not in self._found:
            self._found[key] = self._rendered(roles, add_generation_prompt) if self._writes_at_once else None
        return self._found[key]

    def find_answered(self, roles: tuple[str, ...]) -> tuple[ConversationForm, str] | None:
        """The form of a prompt of these roles, and what the template writes after the text of its answer.

        None unless every text is written once and in order, and the answer's begins where the prompt ends.
        """
        if roles not in self._answered:
            form, whole = self.find(roles, True), self.find((*roles, "assistant"), False)
            self._answered[roles] = (form, whole.end) if (
                form and whole and [slot.number for slot in whole.slots] == list(range(len(roles) + 1))
                and whole.slots[:-1] == form.slots and whole.slots[-1].before == form.end) else None
        return self._answered[roles]

    def _rendered(self, roles: tuple[str, ...], add_generation_prompt: bool) -> ConversationForm | None:
        messages = [{"role": role, "content": _Sealed(f"{_SECRET} {number} raw;", f"{_SECRET} {number} trimmed;")}
                    for number, role in enumerate(roles)]
        try:
            text = self._template.render(messages=messages, add_generation_prompt=add_generation_prompt, **self._names)
        # Errors come from questions to a sealed text, too. The template is then rendered with the texts themselves.
        except (_LooksInside, jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, MemoryError,
                TypeError, ValueError):
            return None
        # The text splits into three pieces for each slot, and the end.
        *pieces, end = _MARK.split(text)
        slots = [_Slot(before, int(number), kind == "trimmed")
                 for before, number, kind in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True)]
        return ConversationForm(tuple(slots), end)
