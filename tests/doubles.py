"""An engine, a tokenizer and a template that need no model: they add, and can stop in the middle.

They have what `workings.evaluation` asks of a model and nothing else, so a run cannot train them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workings.engines.base import Completion
from workings.engines.session import ModelSession
from workings.hardware.device import DeviceFacts


class CharacterTokenizer:
    """One token per character: its id is the character's code point."""

    digest = "0" * 64
    """The recorded value in place of a SHA-256 of the vocabulary."""
    def encode(self, text: str) -> list[int]:
        """The code points of a text."""
        return [ord(character) for character in text]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The code points of several texts."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int], skip_special: bool = False) -> str:
        """The text of code points; there are no control tokens that ``skip_special`` could leave out."""
        return "".join(map(chr, ids))


class PlainTemplate:
    """Earlier turns and the prompt, and nothing else; code point 0 stops."""

    name = "plain"
    source = "{{ prompt }}"
    stop_ids: Sequence[int] = (0,)

    def prompt_ids(self, prompt: str, history: Sequence[tuple[str, str]] = ()) -> list[int]:
        """The code points of earlier turns and a prompt."""
        return [ord(character) for text in (*(turn[1] for turn in history), prompt) for character in text]

    def forges_turns(self, ids: Sequence[int]) -> bool:
        """False: there is no control token."""
        return False


class AddingEngine:
    """Answers "What is a+b?" with its step and the sum, in tags, greedily; remembers what it was asked.

    The answer is one too much where ``a`` is a multiple of 4; the step before it is always right. A completion longer
    than ``max_new_tokens`` is cut there. The call ``die_at_call`` of `generate`, counted from 0, raises
    `KeyboardInterrupt` as Ctrl-C does.
    """

    name = "adding"

    def __init__(self, *, die_at_call: int | None = None) -> None:
        self.calls: list[dict[str, Any]] = []
        """One entry per answered call of `generate`: ``prompts`` as texts, and its keyword arguments by name."""
        self._die_at_call = die_at_call

    def describe(self) -> DeviceFacts:
        """A CPU of one byte: the same facts on every machine, so that records can be compared."""
        return DeviceFacts(platform="cpu", kind="test", count=1, memory_limit_bytes=1, memory_limit_source="test",
                           mesh={"fsdp": 1, "tp": 1}, versions={"adding": "1"}, reason="test")

    def generate(self, state: object, prompts: Sequence[Sequence[int]], *, max_new_tokens: int,
                 stop_ids: Sequence[int], **sampling: Any) -> list[Completion]:
        """One completion per prompt, in the order given; ``sampling`` changes nothing and is remembered."""
        # Before the call is remembered, so that `calls` holds those that were answered.
        if len(self.calls) == self._die_at_call:
            raise KeyboardInterrupt
        texts = ["".join(map(chr, prompt)) for prompt in prompts]
        self.calls.append({"prompts": texts, "max_new_tokens": max_new_tokens, "stop_ids": list(stop_ids), **sampling})
        return [self._answer(text, max_new_tokens) for text in texts]

    def _answer(self, text: str, max_new_tokens: int) -> Completion:
        a, b = (int(number) for number in text.rpartition("What is ")[2].removesuffix("?").split("+"))
        # Only the answer is wrong, never the step, so that step validity and accuracy differ.
        answer = f"<reasoning>{a}+{b}={a + b}</reasoning><answer>{a + b + (a % 4 == 0)}</answer>"
        tokens = [ord(character) for character in answer]
        # As a real engine does it: a cut answer lacks its closing tag.
        if len(tokens) > max_new_tokens:
            return Completion(tokens=tokens[:max_new_tokens], finish_reason="length")
        return Completion(tokens=tokens, finish_reason="stop")


@dataclass(frozen=True, kw_only=True)
class AddingModel(ModelSession):
    """The session that `adding_model` makes; the fakes are no subclasses of what they represent."""

    engine: Any
    tokenizer: Any
    template: Any


def adding_model(*, die_at_call: int | None = None) -> AddingModel:
    """A `ModelSession` as `evaluate` asks for it, around an `AddingEngine`."""
    return AddingModel(engine=AddingEngine(die_at_call=die_at_call), state=object(), tokenizer=CharacterTokenizer(),
                       template=PlainTemplate())
