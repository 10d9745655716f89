"""An engine, tokenizer and template that need no model: they add, and can stop in the middle."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from workings.engines.base import Completion
from workings.hardware.device import DeviceFacts


class CharacterTokenizer:
    """One token per character."""

    digest = "0" * 64

    def encode(self, text: str) -> list[int]:
        return [ord(character) for character in text]

    def decode(self, ids: Sequence[int], skip_special: bool = False) -> str:
        return "".join(map(chr, ids))


class PlainTemplate:
    """The prompt and nothing else."""

    name, source = "plain", "{{ prompt }}"
    stop_ids: Sequence[int] = (0,)

    def prompt_ids(self, prompt: str) -> list[int]:
        return [ord(character) for character in prompt]


class AddingEngine:
    """Answers "What is a+b?" and gets every ``wrong_every``-th prompt wrong; remembers what it was asked."""

    name = "adding"

    def __init__(self, wrong_every: int = 4, die_at_call: int = -1) -> None:
        self.calls: list[dict[str, Any]] = []
        self._wrong_every, self._die_at_call = wrong_every, die_at_call

    def describe(self) -> DeviceFacts:
        versions: Mapping[str, str] = {"adding": "1"}
        return DeviceFacts(platform="cpu", kind="test", count=1, memory_limit_bytes=1, memory_limit_source="test",
                           mesh={"fsdp": 1, "tp": 1}, versions=versions, reason="test")

    def generate(self, state: object, prompts: Sequence[Sequence[int]], *, max_new_tokens: int,
                 stop_ids: Sequence[int], **sampling: Any) -> list[Completion]:
        if len(self.calls) == self._die_at_call:
            raise KeyboardInterrupt
        texts = ["".join(map(chr, prompt)) for prompt in prompts]
        self.calls.append({"prompts": texts, "max_new_tokens": max_new_tokens, "stop_ids": list(stop_ids), **sampling})
        return [self._answer(text, max_new_tokens) for text in texts]

    def _answer(self, text: str, max_new_tokens: int) -> Completion:
        a, b = (int(number) for number in text.removeprefix("What is ").removesuffix("?").split("+"))
        off = 1 if a % self._wrong_every == 0 else 0
        answer = f"<reasoning>{a}+{b}={a + b}</reasoning><answer>{a + b + off}</answer>"
        tokens = [ord(character) for character in answer]
        if len(tokens) > max_new_tokens:
            return Completion(tokens=tokens[:max_new_tokens], finish_reason="length")
        return Completion(tokens=tokens, finish_reason="stop")


def model(**settings: Any) -> SimpleNamespace:
    """The four things that `evaluate` asks for."""
    return SimpleNamespace(engine=AddingEngine(**settings), state=object(), tokenizer=CharacterTokenizer(),
                           template=PlainTemplate())
