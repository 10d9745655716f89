"""Chat turns around a prompt and an answer: Gemma's, the tokenizer's own, or none.

A row is the prompt's tokens followed by the completion's tokens, encoded apart: that is what generation sees, whatever
the tokenizer would merge across the border. Chat templates without generation marks, Gemma's own among them, need
nothing else: the prompt is what the template writes when it is asked for an answer, the completion is the rest.

Templates come with models from other people, so they render in jinja2's immutable sandbox and see nothing but text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from workings.errors import RequestError
from workings.models.tokenizer import Tokenizer

Turns = Sequence[tuple[str, str]]
"""Earlier turns as (role, text)."""


@dataclass(frozen=True)
class ChatTemplate:
    """One way of writing turns, bound to one tokenizer."""

    name: str
    """`gemma`, `tokenizer` or `plain`."""
    source: str
    """The template's text in jinja."""
    tokenizer: Tokenizer

    @classmethod
    def for_config(cls, template: str, tokenizer: Tokenizer) -> "ChatTemplate":
        """The template that the recipe key `data.template` names.

        Raises:
            RequestError: when the tokenizer lacks the template or the tokens that it needs.
        """
        if template == "tokenizer":
            if tokenizer.chat_template is None:
                raise RequestError("data.template: tokenizer, and this tokenizer has no chat template",
                                   "a tokenizer that has one", "data.template=plain")
            return cls(template, tokenizer.chat_template, tokenizer)
        if template not in ("gemma", "plain"):
            raise RequestError(f"data.template: {template}", "gemma, tokenizer or plain")
        needed = ("<start_of_turn>", "<end_of_turn>") if template == "gemma" else ()
        missing = [token for token in needed if tokenizer.token_id(token) is None]
        if missing or (template == "gemma" and tokenizer.bos_id is None):
            unknown = ", ".join(missing) or "BOS"
            raise RequestError(f"data.template: {template}, and the tokenizer does not know {unknown}",
                               "a tokenizer of the Gemma family", "data.template=tokenizer or data.template=plain")
        if template == "plain" and tokenizer.eos_id is None:
            raise RequestError("data.template: plain, and the tokenizer has no end-of-text token",
                               "a token that tells the model to stop", "data.template=tokenizer")
        source = files("workings.models").joinpath(f"templates/{template}.jinja").read_text(encoding="utf-8")
        return cls(template, source.removesuffix("\n"), tokenizer)

    def prompt_text(self, prompt: str, history: Turns = ()) -> str:
        """What stands before the completion, BOS and turn marks included."""
        return self._render([*history, ("user", prompt)], True)

    def full_text(self, prompt: str, completion: str, history: Turns = ()) -> str:
        """The whole conversation as the template writes it."""
        return self._render([*history, ("user", prompt), ("assistant", completion)], False)

    def completion_text(self, prompt: str, completion: str, history: Turns = ()) -> str:
        """What the model has to write after `prompt_text`: the completion up to and including the stop token.

        Text after the stop token (Gemma's line break) is cut: nothing is ever generated there. Text that the template
        puts before the completion (an empty `<think>` block, say) stays: the model has to write it as well.

        Raises:
            RequestError: when the template does not continue its own prompt, rewrites the completion or never stops.
        """
        before = self.prompt_text(prompt, history)
        whole = self.full_text(prompt, completion, history)
        if not whole.startswith(before):
            raise self._wrong("the prompt with its answer does not begin with the prompt alone")
        rest = whole[len(before):]
        start = rest.find(completion)
        if start < 0:
            raise self._wrong("the template rewrites the answer, so the reasoning would not be trained as written")
        end = start + len(completion)
        stop = rest.find(self._stop_text, end)
        if stop < 0:
            raise self._wrong("the stop token does not follow the answer")
        return rest[:stop + len(self._stop_text)]

    def prompt_ids(self, prompt: str, history: Turns = ()) -> list[int]:
        """Token ids of `prompt_text`, with exactly one BOS where the tokenizer has one."""
        return self.with_bos(self.tokenizer.encode(self.prompt_text(prompt, history)))

    def with_bos(self, ids: list[int]) -> list[int]:
        """Put BOS in front when the template did not write it."""
        if self.bos_id is None or self.bos_id in ids[:1]:
            return ids
        return [self.bos_id, *ids]

    @cached_property
    def bos_id(self) -> int | None:
        """The id that must stand first and only once, or None.

        A template that writes the BOS token out by name uses it to open every turn (SmolLM2): then it is a turn mark.
        """
        bos = self.tokenizer.special_text("bos_token")
        return None if not bos or bos in self.source else self.tokenizer.bos_id

    @cached_property
    def stop_ids(self) -> list[int]:
        """Ids that end a completion: the one that rows train comes first, then the tokenizer's end of text."""
        trained = self.tokenizer.control_tokens[self._stop_text]
        eos = self.tokenizer.eos_id
        return [trained] if eos is None or eos == trained else [trained, eos]

    def control_counts(self, roles: tuple[str, ...] = ()) -> tuple[int, int]:
        """Control tokens that the template itself writes: in the prompt, and in the completion.

        A row with more of them has some in a person's text, where they would forge or end a turn.

        Args:
            roles: roles of the earlier turns.
        """
        if roles not in self._counts:
            history = [(role, "a") for role in roles]
            prompt = self.with_bos(self.tokenizer.encode(self.prompt_text("a", history)))
            completion = self.tokenizer.encode(self.completion_text("a", "a", history))
            controls = self.tokenizer.control_ids
            self._counts[roles] = (sum(i in controls for i in prompt), sum(i in controls for i in completion))
        return self._counts[roles]

    @cached_property
    def _counts(self) -> dict[tuple[str, ...], tuple[int, int]]:
        return {}

    @cached_property
    def _stop_text(self) -> str:
        """The first control token after an answer. Looked up once: a vocabulary can hold thousands of them."""
        before, whole = self.prompt_text("1+1?"), self.full_text("1+1?", "2")
        tail = whole[len(before):].partition("2")[2]
        found = [(at, -len(token), token) for token in self.tokenizer.control_tokens if (at := tail.find(token)) >= 0]
        if not found:
            raise self._wrong("no control token follows the answer, so the model would never learn to stop")
        return min(found)[2]

    @cached_property
    def _template(self) -> jinja2.Template:
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                    extensions=["jinja2.ext.loopcontrols"])
        environment.globals["raise_exception"] = _raise
        try:
            return environment.from_string(self.source)
        except jinja2.TemplateError as error:
            raise self._wrong(f"it cannot be read: {error}") from None

    def _render(self, turns: Turns, add_generation_prompt: bool) -> str:
        names: dict[str, Any] = {name: self.tokenizer.special_text(name) for name in ("bos_token", "eos_token")}
        messages = [{"role": role, "content": text} for role, text in turns]
        try:
            return self._template.render(messages=messages, add_generation_prompt=add_generation_prompt, **names)
        except (jinja2.TemplateError, TypeError, ValueError, OverflowError, MemoryError) as error:
            raise self._wrong(f"it fails: {error}") from None

    def _wrong(self, reason: str) -> RequestError:
        return RequestError(f"chat template `{self.name}`: {reason}",
                            "a template whose answer follows its prompt and ends with a control token",
                            "data.template=gemma or data.template=plain")


def _raise(message: str) -> None:
    """What templates call to refuse a conversation, e.g. a system turn."""
    raise jinja2.TemplateError(message)
