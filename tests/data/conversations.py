"""Conversations with several turns of the assistant, whose answers can be told apart."""

from collections.abc import Iterable

from workings.data.traces import Trace
from workings.models.turns import Turn


def turns(*pairs: tuple[str, str]) -> tuple[Turn, ...]:
    """Turns that say nothing but a role and a text."""
    return tuple(Turn(*pair) for pair in pairs)


def conversation(number: int, turns: int, system: str = "") -> Trace:
    """A trace in which the user asks for this many sums, one after the other, and the assistant answers each.

    Args:
        number: decides the sums and the id.
        turns: of the assistant.
        system: what the system says first; empty: it says nothing.
    """
    asked = [(f"What is {number}+{turn}?", f"{number}+{turn}={number + turn}") for turn in range(turns)]
    earlier = [said for question, answer in asked[:-1] for said in (("user", question), ("assistant", answer))]
    return Trace(id=f"talk-{number}", prompt=asked[-1][0], steps=(), answer=asked[-1][1],
                 history=(*([("system", system)] if system else []), *earlier), licence="MIT", source="made")


def conversations(count: int) -> list[Trace]:
    """This many conversations of one, two and three turns of the assistant."""
    return [conversation(number, 1 + number % 3) for number in range(count)]


def said_by_the_assistant(trace: Trace) -> list[str]:
    """The texts of its turns, in their order."""
    return [*(turn.text for turn in trace.history if turn.role == "assistant"), trace.answer]


def texts(traces: Iterable[Trace]) -> list[str]:
    """Every turn of the traces, for a tokenizer."""
    return [text for trace in traces for text in (*(turn.text for turn in trace.history), trace.prompt, trace.answer)]
