r"""Forms of conversations: what a chat template writes around the texts, whatever the texts are.

Most templates copy every text and look into none. Such a template is rendered once for a sequence of roles, with a
`_Sealed` object in place of each text, and then one form serves all conversations of these roles:

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
"""Statements that write at once. Others, such as macros, may keep what was written and look into it."""
# Random, so that nothing that a template writes can look like it.
_SECRET = secrets.token_hex(16)
_MARK = re.compile(rf"{_SECRET} (\d+) (raw|trimmed);")


class _LooksInside(BaseException):
    """A template asks something about a text. No `Exception`, because filters of Jinja catch those."""


def _refuse(*_: object) -> NoReturn:
    raise _LooksInside


class _Sealed:
    """A text that a template can write, trim and append to others. Every question about its characters is refused."""

    def __init__(self, marks: str, trimmed: str = "") -> None:
        """``marks``: written for the text. ``trimmed``: written for the trimmed text; empty if that is not known."""
        self._marks, self._trimmed = marks, trimmed

    @property
    def __class__(self) -> type:
        """`str`, for templates that ask whether a content is a text or a list of parts."""
        return str

    def strip(self, characters: str | None = None) -> "_Sealed":
        """The trimmed text, which trimming again does not change."""
        if characters is not None or not self._trimmed:
            raise _LooksInside
        return _Sealed(self._trimmed, self._trimmed)

    def __add__(self, other: object) -> "_Sealed":
        return _Sealed(self._marks + _marks_of(other))

    def __radd__(self, other: object) -> "_Sealed":
        return _Sealed(_marks_of(other) + self._marks)

    # Operations that are not here, such as `lower`, are errors in Python itself.
    __bool__ = __contains__ = __eq__ = __float__ = __format__ = __getitem__ = __hash__ = __iter__ = _refuse
    __len__ = __repr__ = __str__ = _refuse


def _marks_of(value: object) -> str:
    # The real type, because `isinstance` sees a text in both.
    if type(value) is _Sealed:
        return value._marks
    if type(value) is str:
        return value
    raise _LooksInside


def _written(value: object) -> object:
    """What a template writes for a value."""
    return _marks_of(value) if type(value) is _Sealed else value


class _Slot(NamedTuple):
    """A place for a text."""

    before: str
    """What the template writes between the slot before and this one."""
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
        written = []
        for before, number, trimmed in self.slots:
            text = texts[number]
            written += before, text.strip() if trimmed else text
        return "".join(written) + self.end


class ConversationForms:
    """The forms of a template's conversations, by their roles."""

    def __init__(self, environment: jinja2.Environment, source: str, names: Mapping[str, Any]) -> None:
        """``names``: variables of the template ``source`` besides `messages` and `add_generation_prompt`."""
        self._names = names
        statements = environment.parse(source).find_all(nodes.Stmt)
        self._template = None
        if all(isinstance(each, _STATEMENTS) and not getattr(each, "recursive", False) for each in statements):
            self._template = environment.overlay(finalize=_written).from_string(source)
        self._found: dict[tuple[tuple[str, ...], bool], ConversationForm | None] = {}

    def find(self, roles: tuple[str, ...], add_generation_prompt: bool) -> ConversationForm | None:
        """The form of a conversation of these roles; None if the template looks into a text, or fails."""
        key = roles, add_generation_prompt
        if key not in self._found:
            self._found[key] = self._rendered(roles, add_generation_prompt)
        return self._found[key]

    def _rendered(self, roles: tuple[str, ...], add_generation_prompt: bool) -> ConversationForm | None:
        if self._template is None:
            return None
        messages = [{"role": role, "content": _Sealed(f"{_SECRET} {number} raw;", f"{_SECRET} {number} trimmed;")}
                    for number, role in enumerate(roles)]
        try:
            text = self._template.render(messages=messages, add_generation_prompt=add_generation_prompt, **self._names)
        # Errors come from questions to a sealed text, too. The template is then rendered with the texts themselves.
        except (_LooksInside, jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, MemoryError,
                TypeError, ValueError):
            return None
        *pieces, end = _MARK.split(text)
        slots = zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True)
        return ConversationForm(tuple(_Slot(before, int(number), kind == "trimmed") for before, number, kind in slots),
                                end)
