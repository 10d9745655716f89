"""Turns of a conversation, and everything before a completion."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple


class Turn(NamedTuple):
    """One turn of a conversation."""

    role: str
    """`system`, `user`, `assistant` or `tool`."""
    text: str
    learned: bool = True
    """False for a turn of the assistant that the data mark as not to be learned; other roles are never learned."""
    more: str = ""
    """Further keys for a chat template, as JSON text so that a turn has a hash: `tool_calls` of the assistant, `name`
    and `tool_call_id` of a tool."""

    @property
    def has_calls(self) -> bool:
        """Whether the assistant calls a tool."""
        return self.role == "assistant" and '"tool_calls"' in self.more

    def message(self) -> dict[str, Any]:
        """The turn as chat templates take it."""
        more = json.loads(self.more) if self.more else {}
        return {"role": self.role, "content": self.text} | more

    def to_json(self) -> dict[str, Any]:
        """The turn as files of traces have it."""
        return self.message() if self.learned else self.message() | {"learned": False}


class Asked(NamedTuple):
    """Everything before a completion."""

    turns: tuple[Turn, ...]
    tools: str = ""
    """Descriptions of the tools that may be called, as a JSON list; empty without tools."""

    @classmethod
    def of(cls, prompt: str, history: Sequence[tuple[str, str] | Turn] = (), tool_turns: Sequence[Turn] = (),
           tools: str = "") -> "Asked":
        """A question, the turns before it, and the turns of tools that were called for its answer."""
        return cls((*[Turn(*turn) for turn in history], Turn("user", prompt), *tool_turns), tools)
