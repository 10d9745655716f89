"""What a template of a generator gives, and the table of all kinds."""

from collections.abc import Callable
from dataclasses import dataclass

from workings.data.deterministic_rng import Draw


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One generated problem, right by construction: every number in it was computed, none was typed."""

    prompt: str
    steps: tuple[str, ...]
    answer: str
    key: tuple[object, ...]
    """What makes it this problem and no other, whatever the words: operation and operands in a fixed order. Training
    and evaluation never share a key."""
    category: str
    section: str = "core"
    """`core`, `trace_sensitive` (wrong without its intermediate results) or `edge_case`."""
    difficulty: str = "medium"
    """`easy`, `medium` or `hard`."""


Template = Callable[[Draw], Problem]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of problem: templates for training, and others for evaluation."""

    name: str
    trained: tuple[Template, ...]
    asked: tuple[Template, ...]
