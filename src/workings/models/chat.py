"""Chat turns around a prompt and an answer: Gemma's, the tokenizer's own, or none.

A row is the prompt's tokens followed by the completion's tokens, encoded apart: that is what generation sees, whatever
the tokenizer would merge across the border. Chat templates without generation marks, Gemma's own among them, need
nothing else: the prompt is what the template writes when it is asked for an answer, the completion is the rest.

Gemma 4 thinks in a channel before it answers: `<|channel>thought`, a line break, its reasoning, a line break and
`<channel|>`. The model writes the channel itself, so all of it is learned; `<|think|>` in the system turn, which asks
for it, is not (https://ai.google.dev/gemma/docs/core/prompt-formatting-gemma4).

Templates come with models from other people, so they render in jinja2's immutable sandbox and see nothing but text.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from typing import Any, cast

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from workings.config.families import TEMPLATES
from workings.errors import RequestError
from workings.models.tokenizer import Tokenizer

_TURN_MARKS = {name: tokens for name, tokens in TEMPLATES.items() if name != "tokenizer"}
"""Templates that come with this package, and the tokens that they need. `gemma` is that of Gemma 1, 2 and 3; the
turns of Gemma 4 are those of its published prompt format, without tools."""

THINK = "<think>\n"
"""Begins a completion that reasons before it answers, as templates of thinking models write it."""
NO_THOUGHTS = "<think>\n\n</think>\n\n"
"""Ends the prompt of models that are asked not to think (Qwen 3.5's small ones, unless they are told to)."""
CHANNEL = "channel"
"""The value of the recipe key `data.reasoning` that switches on Gemma 4's thinking."""
THOUGHT, THOUGHT_END = "<|channel>thought\n", "<channel|>"
"""Marks before and behind Gemma 4's reasoning."""
_ASKS_FOR_THOUGHT = "<|think|>"
_CHANNEL_TOKENS = ("<|channel>", THOUGHT_END)
# A default, so that who uses an exported model can still switch thinking off as with the published template.
_THINKING_ON = "{% set enable_thinking = enable_thinking | default(true) %}"
_NO_THOUGHT = THOUGHT + THOUGHT_END
"""Ends the prompt of Gemma 4's larger models (12B, 26B-A4B, 31B) where thinking is off."""

Turns = Sequence[tuple[str, str]]
"""Earlier turns as (role, text)."""


@dataclass(frozen=True)
class ChatTemplate:
    """A chat template, bound to a tokenizer."""

    name: str
    """`gemma`, `gemma4`, `tokenizer` or `plain`."""
    source: str
    """The template's text in jinja."""
    tokenizer: Tokenizer
    thinking: bool = False
    """Whether Gemma 4's thinking is switched on: the prompt asks for it, and completions begin with their channel."""

    @classmethod
    def for_config(cls, template: str, tokenizer: Tokenizer, reasoning: str = "") -> "ChatTemplate":
        """The template that the recipe key `data.template` names.

        Args:
            template: the value of that key.
            tokenizer: writes the tokens.
            reasoning: the value of `data.reasoning`; `channel` switches on Gemma 4's thinking, `think` that of models
                whose prompts end it before it begins (Qwen 3.5 0.8B and 2B), the others nothing.

        Raises:
            RequestError: when the tokenizer lacks the template or the tokens that it needs, or `channel` is asked of
                a template that is not Gemma 4's.
        """
        made = cls._named(template, tokenizer)
        if reasoning == CHANNEL:
            return made._thinking()
        return made._opened() if reasoning == "think" else made

    @classmethod
    def _named(cls, template: str, tokenizer: Tokenizer) -> "ChatTemplate":
        if template == "tokenizer":
            if tokenizer.chat_template is None:
                raise RequestError("data.template: tokenizer, and this tokenizer has no chat template",
                                   "a tokenizer that has one", "data.template=plain")
            return cls(template, tokenizer.chat_template, tokenizer)
        if template not in _TURN_MARKS:
            raise RequestError(f"data.template: {template}", f"tokenizer, {' or '.join(_TURN_MARKS)}")
        # A mark that is not in the vocabulary would be cut into ordinary pieces, and the model would never see a turn.
        missing = [token for token in _TURN_MARKS[template] if tokenizer.token_id(token) is None]
        if missing or (_TURN_MARKS[template] and tokenizer.bos_id is None):
            unknown = ", ".join(missing) or "BOS"
            raise RequestError(f"data.template: {template}, and the tokenizer does not know {unknown}",
                               "a tokenizer of the Gemma family", "data.template=tokenizer or data.template=plain")
        # `plain` writes no turn marks, so the end of the text is the only token that can stop the model.
        if template == "plain" and tokenizer.eos_id is None:
            raise RequestError("data.template: plain, and the tokenizer has no end-of-text token",
                               "a token that tells the model to stop", "data.template=tokenizer")
        source = files("workings.models").joinpath(f"templates/{template}.jinja").read_text(encoding="utf-8")
        return cls(template, source.removesuffix("\n"), tokenizer)

    def _opened(self) -> "ChatTemplate":
        """The template with thinking enabled, for templates whose prompts would end the thinking before it begins."""
        if not self.prompt_text("1+1?").endswith(NO_THOUGHTS):
            return self
        # Tried out rather than looked for in the template's text, which may decide about thinking in any way it likes.
        told = replace(self, source=_THINKING_ON + self.source)
        return told if told.prompt_text("1+1?").endswith(THINK) else self

    def _thinking(self) -> "ChatTemplate":
        """The template with Gemma 4's thinking switched on."""
        if self.name not in ("gemma4", "tokenizer"):
            raise RequestError(f"data.reasoning: {CHANNEL} with data.template: {self.name}",
                               "gemma4, or tokenizer where the model's own template is Gemma 4's: other models have no "
                               "such channel", "data.template=gemma4, or data.reasoning=think")
        # A token that is not in the vocabulary would be cut into ordinary pieces that the model does not know.
        missing = [token for token in (_ASKS_FOR_THOUGHT, *_CHANNEL_TOKENS)
                   if self.tokenizer.encode(token) != [self.tokenizer.control_tokens.get(token)]]
        if missing:
            raise RequestError(f"data.reasoning: {CHANNEL}, and the tokenizer does not have {', '.join(missing)} as "
                               "single control tokens", "the tokenizer of a Gemma 4 model", "data.reasoning=think")
        made = replace(self, source=_THINKING_ON + self.source, thinking=True)
        # Again tried out: a template without the variable would leave thinking off without a word.
        if made.prompt_text("1+1?").count(_ASKS_FOR_THOUGHT) != 1:
            raise RequestError(f"data.reasoning: {CHANNEL}, and the tokenizer's own chat template does not write "
                               f"{_ASKS_FOR_THOUGHT}", "the chat template of a Gemma 4 model", "data.template=gemma4")
        return made

    def prompt_text(self, prompt: str, history: Turns = ()) -> str:
        """Text before the completion, BOS and turn marks included."""
        return self._render([*history, ("user", prompt)], True)

    def completion_text(self, prompt: str, completion: str, history: Turns = ()) -> str:
        """Text that the model has to write after `prompt_text`: the completion up to and including the stop token.

        Text after the stop token (Gemma's line break) is cut: nothing is ever generated there. Text that the template
        puts before the completion (an empty `<think>` block, say) stays: the model has to write it as well.

        Raises:
            RequestError: when the template does not continue its own prompt, rewrites the completion or never stops.
        """
        return self._learned([*history, ("user", prompt)], completion)

    def earlier_turns(self, prompt: str, history: Turns) -> list[tuple[str, str]]:
        """The assistant's turns of a history: all text before each of them, and what the model has to write there.

        Of each turn, what is before it and what is learned of it are the beginning of the whole conversation's
        text, so that nothing is learned that is not also shown.

        Raises:
            RequestError: the template writes a turn otherwise once the conversation has gone on; or as
                `completion_text`.
        """
        turns = [*history, ("user", prompt)]
        places = [number for number, (role, _) in enumerate(turns) if role == "assistant"]
        # What the model is shown before each of its turns, the one that is still to come included.
        before = [self._render(turns[:number], True) for number in [*places, len(turns)]]
        ids = []
        for turn, place in enumerate(places):
            shown, text = before[turn + 1], turns[place][1]
            if not shown.startswith(before[turn]):
                raise self._rewritten(turn + 1, before[turn], shown)
            learned = self._learned_earlier(turns[:place], text, turn + 1)
            if not shown.startswith(before[turn] + learned):
                raise self._rewritten(turn + 1, before[turn] + learned, shown)
            ids.append((before[turn], learned))
        return ids

    def _learned_earlier(self, turns: Turns, text: str, turn: int) -> str:
        """`_learned` of one of the assistant's turns, the first being 1, without white space where that is left out."""
        try:
            return self._learned(turns, text)
        except RequestError as error:
            # Templates that trim the last answer trim the earlier ones as well, and then that is what is shown.
            if text != text.strip():
                return self._learned_earlier(turns, text.strip(), turn)
            raise RequestError(f"turn {turn} of the assistant: {error.given}", error.expected, error.try_next) from None

    def _rewritten(self, turn: int, at_first: str, later: str) -> RequestError:
        """Error for a turn (the assistant's first is 1) that is rendered differently later in the conversation."""
        # The first difference is shown, because rendered conversations are too long to compare by eye.
        same = next((at for at, (a, b) in enumerate(zip(at_first, later, strict=False)) if a != b),
                    min(len(at_first), len(later)))
        return RequestError(
            f"data.learn: all, and chat template `{self.name}` writes turn {turn} of the assistant, or what is "
            f"before it, otherwise once the conversation goes on: first {_excerpt(at_first[same:])}, later "
            f"{_excerpt(later[same:])}; what would be learned is not what the model is shown",
            "a template that leaves earlier turns as they were; those of thinking models often drop the reasoning",
            "data.learn=last, with a trace for each of the assistant's turns to learn them all")

    def begins_with_reasoning(self, completion: str) -> bool:
        """Whether a completion begins with its reasoning, as this template's models write it."""
        if self.thinking:
            return completion.startswith(THOUGHT) and THOUGHT_END in completion
        return completion.startswith(THINK)

    def split_thought(self, completion: str) -> tuple[str, str]:
        """Gemma 4's channel at the beginning of a completion, marks included, and the rest; ("", all) without one."""
        if not (self.thinking and self.begins_with_reasoning(completion)):
            return "", completion
        thought, mark, answer = completion.partition(THOUGHT_END)
        return thought + mark, answer

    def forges_turns(self, ids: Sequence[int]) -> bool:
        """Whether a completion, without its stop token, has control tokens next to those of its channel."""
        # A completion with a turn mark in it would be split into turns that no one wrote once it is rendered again.
        control = [each for each in ids if each in self.tokenizer.control_ids]
        channel = [self.tokenizer.token_id(token) for token in _CHANNEL_TOKENS]
        return bool(control) and not (self.thinking and control == channel and ids[0] == channel[0])

    def _learned(self, turns: Turns, completion: str) -> str:
        """See `completion_text`; ``turns`` are all before the assistant's."""
        # Gemma 4's template leaves the channel out of every turn that it is given. The model writes it first of all.
        thought, answer = self.split_thought(completion)
        return thought + self._learned_as_rendered(turns, answer)

    def _learned_as_rendered(self, turns: Turns, completion: str) -> str:
        """`_learned` of a completion without a channel."""
        before = self._render(turns, True)
        rest, opened = self._rest(before, self._render([*turns, ("assistant", completion)], False))
        # The prompt ends with the opening tag already, so generation begins behind it.
        if before.endswith(THINK) and completion.startswith(THINK):
            completion = completion.removeprefix(THINK)
            if opened:
                return completion + self.stop_text
        # The answer has to be there letter by letter: some templates drop or trim reasoning.
        start = rest.find(completion)
        if opened or start < 0:
            raise self._wrong("it opens or rewrites the answer, so the reasoning would not be trained as written")
        # Behind the answer, whose own text may hold the stop token; such a row is refused later, when it is proved.
        stop = rest.find(self.stop_text, start + len(completion))
        if stop < 0:
            raise self._wrong("the stop token does not follow the answer")
        return rest[:stop + len(self.stop_text)]

    def prompt_ids(self, prompt: str, history: Turns = ()) -> list[int]:
        """Token ids of `prompt_text`, with exactly one BOS where the tokenizer has one."""
        return self.with_bos(self.tokenizer.encode(self.prompt_text(prompt, history)))

    def with_bos(self, ids: list[int]) -> list[int]:
        """Put BOS in front where the tokenizer is told to add it and the template does not write it."""
        # Only the first token counts: whether BOS also is further behind is for the check of rows to find.
        if self.bos_id is None or self.bos_id in ids[:1]:
            return ids
        return [self.bos_id, *ids]

    @cached_property
    def bos_id(self) -> int | None:
        """The id that must be first and only once; None for a model that is prompted without one.

        The model's own template is the authority: what it does not write, the model has not seen (ChatML). A template
        that spells the BOS token out uses it to open every turn (SmolLM2): there it is a turn mark.
        """
        bos = self.tokenizer.special_text("bos_token")
        if not bos or bos in self.source:
            return None
        written = self.prompt_text("1+1?").startswith(bos)
        return self.tokenizer.bos_id if written or self.tokenizer.settings.get("add_bos_token") is True else None

    @cached_property
    def stop_ids(self) -> list[int]:
        """Ids that end a completion: the one that rows train comes first, then the tokenizer's end of text."""
        trained = self.tokenizer.control_tokens[self.stop_text]
        eos = self.tokenizer.eos_id
        # Base models end with the tokenizer's end of text, which a tuned model may still write early in training.
        return [trained] if eos is None or eos == trained else [trained, eos]

    def control_counts(self, roles: tuple[str, ...] = (), thinks: bool = False) -> tuple[int, int]:
        """Control tokens that the template itself writes: in the prompt, and in the completion.

        A row with more of them has some in a person's text, where they would forge or end a turn.

        Args:
            roles: roles of the earlier turns.
            thinks: whether the completion begins with its reasoning; see `begins_with_reasoning`.
        """
        if (roles, thinks) not in self._counts:
            # The template's own control tokens depend on the roles and not on the texts, so any text does.
            history = [(role, "a") for role in roles]
            thought = f"{THOUGHT}a\n{THOUGHT_END}" if self.thinking else f"{THINK}a\n</think>\n\n"
            completion = f"{thought}a" if thinks else "a"
            # Counted on a rendered example and not in the source, whose branches depend on the roles.
            prompt = self.with_bos(self.tokenizer.encode(self.prompt_text("a", history)))
            learned = self.tokenizer.encode(self.completion_text("a", completion, history))
            controls = self.tokenizer.control_ids
            self._counts[roles, thinks] = (sum(i in controls for i in prompt), sum(i in controls for i in learned))
        return self._counts[roles, thinks]

    @cached_property
    def _counts(self) -> dict[tuple[tuple[str, ...], bool], tuple[int, int]]:
        return {}

    @cached_property
    def stop_text(self) -> str:
        """The first control token after an answer. Looked up once: a vocabulary can hold thousands of them."""
        rest, _ = self._rest(self.prompt_text("1+1?"), self._render([("user", "1+1?"), ("assistant", "2")], False))
        tail = rest.partition("2")[2]
        # Of tokens that begin at the same place the longest is meant.
        tokens = [(at, -len(token), token) for token in self.tokenizer.control_tokens if (at := tail.find(token)) >= 0]
        if not tokens:
            raise self._wrong("no control token follows the answer, so the model would never learn to stop")
        return min(tokens)[2]

    def _rest(self, before: str, conversation: str) -> tuple[str, bool]:
        """The text after the prompt in the whole text, and whether the prompt has opened a `<think>` block itself.

        Templates of thinking models end the prompt with the opening tag, and drop the thoughts of a finished turn.
        """
        if conversation.startswith(before):
            return conversation[len(before):], False
        if before.endswith(THINK) and conversation.startswith(before.removesuffix(THINK)):
            return conversation[len(before) - len(THINK):], True
        # The larger models of Gemma 4 are asked with an empty channel, which finished turns are written without.
        if before.endswith(_NO_THOUGHT) and conversation.startswith(before.removesuffix(_NO_THOUGHT)):
            return conversation[len(before) - len(_NO_THOUGHT):], False
        raise self._wrong("the prompt with its answer does not begin with the prompt alone")

    @cached_property
    def _template(self) -> jinja2.Template:
        # The settings under which transformers renders: templates are written for them, down to the white space.
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                    extensions=["jinja2.ext.loopcontrols", _GenerationMarks])
        environment.globals["raise_exception"] = _raise
        environment.filters["tojson"] = _to_json
        try:
            return environment.from_string(self.source)
        except jinja2.TemplateError as error:
            raise self._wrong(f"it cannot be read: {error}") from None

    def _render(self, turns: Turns, add_generation_prompt: bool) -> str:
        names: dict[str, Any] = {name: self.tokenizer.special_text(name) for name in ("bos_token", "eos_token")}
        messages = [{"role": role, "content": text} for role, text in turns]
        try:
            return self._template.render(messages=messages, add_generation_prompt=add_generation_prompt, **names)
        # A template is a program of someone else, and these are the ways in which it can fail on plain texts.
        except (jinja2.TemplateError, TypeError, ValueError, OverflowError, MemoryError) as error:
            raise self._wrong(f"it fails: {error}") from None

    def _wrong(self, reason: str) -> RequestError:
        return RequestError(f"chat template `{self.name}`: {reason}",
                            "a template whose answer follows its prompt and ends with a control token",
                            "data.template=gemma or data.template=plain")


class _GenerationMarks(Extension):
    """`{% generation %}`, with which some templates mark the assistant's text: here it marks nothing.

    The border between prompt and completion comes from the prompt itself, for templates with marks and without.
    """

    tags = {"generation"}  # noqa: RUF012 - declared so by jinja2

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """The text between the marks, as it is."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _excerpt(text: str) -> str:
    """The beginning of a text, for messages; line breaks visible."""
    return repr(text if len(text) <= 40 else text[:39] + "…")


def _to_json(value: object, **options: object) -> str:
    """JSON as transformers writes it in templates: no HTML escapes, and characters as they are."""
    return json.dumps(value, ensure_ascii=False, indent=cast(int | None, options.get("indent")))


def _raise(message: str) -> None:
    """Function that templates call to refuse a conversation, such as one with a system turn."""
    raise jinja2.TemplateError(message)
