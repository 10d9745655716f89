"""Turns of a conversation, and everything before a completion."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Turn(NamedTuple):
    """One turn of a conversation."""

    role: str
    """`system`, `user`, `assistant` or `tool`."""
    text: str
    learned: bool = True
    """False for a turn of the assistant that the data mark as not to be learned; other roles are never learned."""
    more: str = ""
    """What else the turn says to a chat template, as JSON: `tool_calls` of the assistant, `name` and `tool_call_id` of
    a tool. A text, so that a turn can be compared and hashed."""

    @property
    def has_calls(self) -> bool:
        """Whether the assistant calls a tool."""
        return self.role == "assistant" and '"tool_calls"' in self.more

    def message(self) -> dict[str, Any]:
        """The turn as chat templates take it."""
        return {"role": self.role, "content": self.text, **(json.loads(self.more) if self.more else {})}

    def to_json(self) -> dict[str, Any]:
        """The turn as files of traces write it; a mark is left out where the turn may be learned."""
        return self.message() | ({} if self.learned else {"learned": False})


@dataclass(frozen=True)
class Asked:
    """Everything before a completion."""

    turns: tuple[Turn, ...]
    tools: str = ""
    """Descriptions of the tools that may be called, as JSON (a list); empty without tools."""

    @classmethod
    def of(cls, prompt: str, history: Sequence[tuple[str, str] | Turn] = (), tool_turns: Sequence[Turn] = (),
           tools: str = "") -> "Asked":
        """A question between the turns before it and, if tools were called for its answer, their turns."""
        return cls((*(Turn(*turn) for turn in history), Turn("user", prompt), *tool_turns), tools)
