"""Amount of imported conversations that a run learns: the assistant's last turn, or all of its turns."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workings.data.traces import Trace, iterate_traces
from workings.record.number_text import percent


@dataclass(kw_only=True)
class LearnedCounts:
    """Turns of the assistant and their characters, counted while traces are written.

    Characters and not tokens, because an import knows no tokenizer: `workings data preview` counts tokens.
    """

    traces: int = 0
    """Each has one last turn."""
    conversations: int = 0
    """Traces with an earlier turn of the assistant."""
    earlier_turns: int = 0
    """Turns of the assistant before the last ones."""
    last_characters: int = 0
    """Characters of steps and answers."""
    earlier_characters: int = 0
    reasoning_left_out: int = 0
    """Earlier turns with reasoning in a separate field, which a history does not keep."""

    def add(self, trace: Trace, reasoning_left_out: int) -> None:
        """Count one trace; ``reasoning_left_out`` is how many of its earlier turns lost their reasoning."""
        earlier = [turn.text for turn in (*trace.history, *trace.tool_turns)
                   if turn.role == "assistant" and turn.learned]
        self.traces += 1
        self.conversations += bool(earlier)
        self.earlier_turns += len(earlier)
        self.last_characters += sum(map(len, (*trace.steps, trace.answer)))
        self.earlier_characters += sum(map(len, earlier))
        self.reasoning_left_out += reasoning_left_out

    def from_file(self, traces: Path) -> "LearnedCounts":
        """The counts of the traces that a hold-out has left in a file."""
        counts = LearnedCounts()
        for trace in iterate_traces(traces):
            # A trace does not say that an earlier turn lost its reasoning; only the import knows.
            counts.add(trace, 0)
        return replace(counts, reasoning_left_out=self.reasoning_left_out)

    def to_json(self) -> dict[str, Any]:
        """Keys of `--json`: counts for each value of `data.learn`."""
        return {"conversations": self.conversations,
                "last": {"assistant_turns": self.traces, "characters": self.last_characters},
                "all": {"assistant_turns": self.traces + self.earlier_turns,
                        "characters": self.last_characters + self.earlier_characters},
                "earlier_reasoning_left_out": self.reasoning_left_out}

    def text(self) -> list[str]:
        """Lines for the terminal; none where `last` and `all` learn the same."""
        if not self.earlier_turns:
            return []
        turns, characters = self.traces + self.earlier_turns, self.last_characters + self.earlier_characters
        share = percent(self.last_characters / characters)
        lines = [f"conversations with several turns of the assistant: {self.conversations:,}",
                 f"data.learn: last (the default) learns {self.traces:,} of {turns:,} turns of the assistant: "
                 f"{self.last_characters:,} of {characters:,} characters ({share})",
                 f"data.learn: all learns all {turns:,}"]
        if self.reasoning_left_out:
            lines.append(f"{self.reasoning_left_out:,} earlier turns had reasoning in a separate field, which is not "
                         "kept: only the last turn has steps")
        return lines
