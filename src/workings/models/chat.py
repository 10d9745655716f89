r"""Chat templates: the text that a model reads before an answer, and the text that it has to write.

    read     <bos><start_of_turn>user\n2+2?<end_of_turn>\n<start_of_turn>model\n
    learned  4<end_of_turn>

Gemma 4 writes its reasoning before the answer, in a channel: ``<|channel>thought\n…\n<channel|>``. It is learned; the
``<|think|>`` in the system turn that asks for it is not. See
https://ai.google.dev/gemma/docs/core/prompt-formatting-gemma4.

Templates are foreign programs, so they render in jinja2's immutable sandbox and see nothing but text.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from itertools import pairwise
from typing import Any, cast

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from workings.config.families import TEMPLATES
from workings.errors import RequestError
from workings.models.conversation_form import ConversationForms
from workings.models.tokenizer import Tokenizer
from workings.models.turns import Asked, Turn

_TURN_MARKS = {name: tokens for name, tokens in TEMPLATES.items() if name != "tokenizer"}
"""Templates of this package, and the tokens that they need."""
THINK = "<think>\n"
"""Begins a completion that reasons before it answers."""
NO_THOUGHTS = "<think>\n\n</think>\n\n"
"""Ends the prompt if thinking is off (Qwen 3.5's small models, by default)."""
CHANNEL = "channel"
"""The value of the recipe key `data.reasoning` that switches on Gemma 4's thinking."""
THOUGHT, THOUGHT_END = "<|channel>thought\n", "<channel|>"
"""Marks before and after Gemma 4's reasoning."""
_ASKS_FOR_THOUGHT = "<|think|>"
_CHANNEL_TOKENS = ("<|channel>", THOUGHT_END)
_THINKING_ON = "{% set enable_thinking = enable_thinking | default(true) %}"
"""A default, so that users of an exported model can still switch thinking off."""
_NO_THOUGHT = THOUGHT + THOUGHT_END
"""Ends the prompt of Gemma 4's larger models (12B, 26B-A4B, 31B) if thinking is off."""
_EMPTY_THOUGHTS = ("", NO_THOUGHTS.strip(), _NO_THOUGHT.strip())
"""What a template may write before an answer without thoughts, white space aside."""
Turns = Sequence[tuple[str, str] | Turn]
"""Earlier turns, also as (role, text)."""


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
        """The template for the recipe keys `data.template` and `data.reasoning`.

        Reasoning `channel` switches on Gemma 4's thinking, and `think` that of models whose prompts switch it off (Qwen
        3.5 0.8B and 2B). Raises `RequestError` if the tokenizer lacks the template or the tokens that it needs, or
        the template has no channel.
        """
        made = cls._named(template, tokenizer)
        if reasoning == CHANNEL:
            return made._with_channel()
        return made._with_thinking() if reasoning == "think" else made

    @classmethod
    def _named(cls, template: str, tokenizer: Tokenizer) -> "ChatTemplate":
        if template == "tokenizer":
            if tokenizer.chat_template is None:
                raise RequestError("data.template is tokenizer, but this tokenizer has no chat template",
                                   "a tokenizer that has one", "data.template=plain")
            return cls(template, tokenizer.chat_template, tokenizer)
        if template not in _TURN_MARKS:
            raise RequestError(f"data.template cannot be {template}", f"tokenizer, {' or '.join(_TURN_MARKS)}")
        missing = [token for token in _TURN_MARKS[template] if tokenizer.token_id(token) is None]
        if _TURN_MARKS[template] and tokenizer.bos_id is None:
            missing = missing or ["BOS"]
        if missing:
            raise RequestError(f"the tokenizer does not know {', '.join(missing)} of data.template: {template}",
                               "a tokenizer of the Gemma family",
                               "data.template=tokenizer, or data.template=plain, which writes no turns")
        if template == "plain" and tokenizer.eos_id is None:
            raise RequestError("data.template is plain, but the tokenizer has no end-of-text token",
                               "a token that tells the model to stop", "data.template=tokenizer")
        source = files("workings.models").joinpath(f"templates/{template}.jinja").read_text(encoding="utf-8")
        return cls(template, source.removesuffix("\n"), tokenizer)

    def _with_thinking(self) -> "ChatTemplate":
        """The template with thinking switched on, if its prompts switch it off."""
        if not self.prompt_text("1+1?").endswith(NO_THOUGHTS):
            return self
        thinking = replace(self, source=_THINKING_ON + self.source)
        return thinking if thinking.prompt_text("1+1?").endswith(THINK) else self

    def _with_channel(self) -> "ChatTemplate":
        """The template with Gemma 4's thinking switched on."""
        if self.name not in ("gemma4", "tokenizer"):
            raise RequestError(f"data.reasoning: {CHANNEL} does not fit data.template: {self.name}",
                               "gemma4, or tokenizer where the model's own template is Gemma 4's",
                               "data.template=gemma4, or data.reasoning=think")
        missing = [token for token in (_ASKS_FOR_THOUGHT, *_CHANNEL_TOKENS)
                   if self.tokenizer.encode(token) != [self.tokenizer.control_tokens.get(token)]]
        if missing:
            raise RequestError(f"data.reasoning is {CHANNEL}, but the tokenizer lacks the control tokens "
                               f"{', '.join(missing)}", "the tokenizer of a Gemma 4 model", "data.reasoning=think")
        made = replace(self, source=_THINKING_ON + self.source, thinking=True)
        # A template without the variable leaves thinking off.
        if made.prompt_text("1+1?").count(_ASKS_FOR_THOUGHT) != 1:
            raise RequestError(f"data.reasoning is {CHANNEL}, but the tokenizer's chat template does not write "
                               f"{_ASKS_FOR_THOUGHT}", "the chat template of a Gemma 4 model", "data.template=gemma4")
        return made

    def prompt_text(self, prompt: str, history: Turns = ()) -> str:
        """`read_text` of a question."""
        return self.read_text(Asked.of(prompt, history))

    def completion_text(self, prompt: str, completion: str, history: Turns = ()) -> str:
        """`learned_text` of an answer to a question."""
        asked = Asked.of(prompt, history)
        return self.learned_text(asked, Turn("assistant", completion), self._render(asked))

    def read_and_learned(self, asked: Asked, completion: str, calls: str = "") -> tuple[str, str]:
        """`read_text` of a conversation, and `learned_text` of a completion that ends with these tool calls."""
        if not (self.thinking or calls or asked.tools or any(turn.more for turn in asked.turns)):
            found = self._conversation_forms.find_answered(tuple([turn.role for turn in asked.turns]))
            if found and found[1].startswith(self.stop_text) and completion == completion.strip():
                read = found[0].filled([turn.text for turn in asked.turns])
                # The answer may begin in a block of thinking that the prompt has opened.
                if not read.endswith(THINK):
                    return read, completion + self.stop_text
        read = self.read_text(asked)
        return read, self.learned_text(asked, Turn("assistant", completion, more=calls), read)

    def read_text(self, asked: Asked) -> str:
        """Text before a completion, BOS included. Raises `RequestError` if the template changes it or hides tools."""
        text = self._render(asked)
        self.refuse_other_texts(asked, text)
        return text

    def learned_text(self, asked: Asked, said: Turn, read: str) -> str:
        """Text that the model has to write after ``read``, the rendered ``asked``: the completion and the stop token.

        It includes an empty block of thinking that the template puts before the completion. Raises `RequestError` if
        the template does not continue its own prompt, rewrites the completion or never stops.
        """
        # Gemma 4's template leaves out the channel.
        thought, answer = self.split_thought(said.text)
        if thought:
            said = said._replace(text=answer)
        return thought + self._learned_as_rendered(asked, said, read)

    def observation_ids(self, text: str) -> list[int]:
        """Tokens of a user's turn after an answer's stop token, up to the next answer. Raises `RequestError`."""
        before = self.prompt_text("1+1?") + self.completion_text("1+1?", "2")
        whole = self.read_text(Asked((*Asked.of("1+1?").turns, Turn("assistant", "2"), Turn("user", text))))
        if not whole.startswith(before):
            raise self._wrong("it changes earlier turns later in a conversation")
        tokens = self.tokenizer.encode(whole[len(before):])
        if text != "a" and sum(i in self.tokenizer.control_ids for i in tokens) != self._observation_controls:
            raise RequestError(f"an observation contains control tokens: {_excerpt(text)}",
                               "a text that cannot end or forge a turn")
        return tokens

    @cached_property
    def _observation_controls(self) -> int:
        """Control tokens that the template writes around an observation."""
        return sum(i in self.tokenizer.control_ids for i in self.observation_ids("a"))

    def earlier_turns(self, asked: Asked) -> list[tuple[str, str]]:
        """The assistant's learned turns before a completion: all text before each, and what the model writes there.

        For the turns U1 A1 U2 A2 U3 of user and assistant these are (U1, A1) and (U1 A1 U2, A2). Raises `RequestError`
        if the template changes a turn later in the conversation.
        """
        places = [place for place, turn in enumerate(asked.turns) if turn.role == "assistant"]
        learned_turns = [(number, place) for number, place in enumerate(places, start=1) if asked.turns[place].learned]
        # What the model reads before each of these turns, and before the completion.
        reads = [self._render(asked._replace(turns=asked.turns[:place]))
                 for place in [*(place for _, place in learned_turns), len(asked.turns)]]
        earlier = []
        for (number, place), (read, read_later) in zip(learned_turns, pairwise(reads), strict=True):
            if not read_later.startswith(read):
                raise self._rewritten(number, read, read_later)
            learned = self._learned_earlier(asked._replace(turns=asked.turns[:place]), asked.turns[place], number, read)
            if not read_later.startswith(read + learned):
                raise self._rewritten(number, read + learned, read_later)
            earlier.append((read, learned))
        return earlier

    def _learned_earlier(self, asked: Asked, said: Turn, number: int, read: str) -> str:
        """`learned_text` of the assistant's turn of this number. Some templates trim it."""
        try:
            return self.learned_text(asked, said, read)
        except RequestError as error:
            if said.text != said.text.strip():
                return self._learned_earlier(asked, said._replace(text=said.text.strip()), number, read)
            raise RequestError(f"turn {number} of the assistant: {error.given}", error.expected,
                               error.try_next) from None

    def refuse_other_texts(self, asked: Asked, text: str) -> None:
        """Raise `RequestError` if a turn or a tool is not in the prompt as it was given."""
        at = 0
        for number, turn in enumerate(asked.turns, start=1):
            ends = [text.find(form, at) + len(form) for form in self._forms(turn) if form in text[at:]]
            if not ends:
                raise RequestError(
                    f"chat template `{self.name}` leaves out or changes turn {number} ({turn.role}): "
                    f"{_excerpt(turn.text)}", "a template that writes the text of every turn, in order",
                    "another data.template, or data without such turns")
            at = min(ends)
            self._after_calls(text, at, turn)  # only to refuse calls that are missing
        if not asked.tools:
            return
        without_tools = self._render(asked._replace(tools=""))
        if text == without_tools or any(_tool_name(tool) not in text for tool in json.loads(asked.tools)):
            raise RequestError(f"chat template `{self.name}` does not show the tools that the data describe",
                               "a template that takes `tools`, as those of models that call tools do",
                               "the template of a model that calls tools, or import the data with --ignore tools")

    def _forms(self, turn: Turn) -> list[str]:
        """The ways in which a template may write a turn: trimmed, without thoughts, or as JSON."""
        forms = [turn.text.strip()]
        if turn.role == "assistant":
            forms += [turn.text.rpartition(end)[2].strip() for end in ("</think>", THOUGHT_END) if end in turn.text]
        if turn.role == "tool":
            forms.append(json.dumps(turn.text, ensure_ascii=False)[1:-1])
        return forms

    def _after_calls(self, text: str, at: int, turn: Turn) -> int:
        """Where a turn's tool calls end in a text, from a position on; that position if there are none."""
        if not turn.has_calls:
            return at
        for call in json.loads(turn.more).get("tool_calls", ()):
            name = call["function"]["name"]
            start = text.find(name, at)
            # Each argument has to follow the tool's name.
            ends = [_end_of(value, text, start) for value in _leaves(call["function"].get("arguments", {}))]
            if start < 0 or -1 in ends:
                raise self._wrong(f"it leaves out or changes a call of the tool {name}",
                                  "a template that writes calls of tools", "the template of a model that calls tools")
            at = max([start + len(name), *ends])
        return at

    def _rewritten(self, turn: int, at_first: str, later: str) -> RequestError:
        """Error for a turn (the assistant's first is 1) that reads differently later in the conversation."""
        same = next((at for at, (a, b) in enumerate(zip(at_first, later, strict=False)) if a != b),
                    min(len(at_first), len(later)))
        return RequestError(
            f"chat template `{self.name}` changes turn {turn} of the assistant, or the text before it, in a longer "
            f"conversation: first {_excerpt(at_first[same:])}, later {_excerpt(later[same:])}",
            "with data.learn: all, a template that leaves earlier turns as they were; those of thinking models often "
            "drop the reasoning",
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
        """Whether a completion, without its stop token, has control tokens other than those of its channel."""
        control = [each for each in ids if each in self.tokenizer.control_ids]
        channel = [self.tokenizer.token_id(token) for token in _CHANNEL_TOKENS]
        has_channel = self.thinking and control == channel and ids[0] == channel[0]
        return bool(control) and not has_channel

    def _learned_as_rendered(self, asked: Asked, said: Turn, before: str) -> str:
        """`learned_text` of a completion without a channel."""
        completion = said.text
        rest, opened = self._rest(before, self._render(asked, said))
        if before.endswith(THINK) and completion.startswith(THINK):
            completion = completion.removeprefix(THINK)
            if opened:
                return completion + self.stop_text
        # Some templates drop or trim reasoning.
        start = rest.find(completion)
        if opened or start < 0:
            raise self._wrong("it opens or rewrites the answer, so the reasoning would not be trained as written")
        # The answer itself may hold the stop token. Such a row is refused later.
        end = self._after_calls(rest, start + len(completion), said)
        stop = rest.find(self.stop_text, end)
        if stop < 0:
            raise self._wrong("the stop token does not follow the answer")
        if not said.has_calls:
            # The last occurrence, because the text before it may hold the same letters.
            last = rest.rfind(completion, 0, stop)
            self._refuse_additions(rest[:last], rest[last + len(completion):stop], completion)
        return rest[:stop + len(self.stop_text)]

    def _refuse_additions(self, before: str, after: str, completion: str) -> None:
        """Raise `RequestError` if the template adds text around an answer, or reasoning before one with its own."""
        if THINK.strip() in before and "</think>" in completion:
            raise self._wrong("it writes a second block of thinking before an answer that begins with one")
        if before.strip() not in (*_EMPTY_THOUGHTS, self.header.strip()):
            raise self._wrong(f"it adds {_excerpt(before)} before the answer")
        if after.strip():
            raise self._wrong(f"it adds {_excerpt(after)} after the answer")

    def prompt_ids(self, prompt: str, history: Turns = ()) -> list[int]:
        """Token ids of `prompt_text`, with exactly one BOS where the tokenizer has one."""
        return self.with_bos(self.tokenizer.encode(self.prompt_text(prompt, history)))

    def with_bos(self, ids: list[int]) -> list[int]:
        """Ids with `bos_id` in front, if there is one."""
        if self.bos_id is None or self.bos_id in ids[:1]:
            return ids
        return [self.bos_id, *ids]

    @cached_property
    def bos_id(self) -> int | None:
        """The id that must be first and only once; None for a model that is prompted without one (ChatML).

        A template that spells the BOS token out uses it as a turn mark (SmolLM2).
        """
        bos = self.tokenizer.special_text("bos_token")
        if not bos or bos in self.source:
            return None
        written = self.prompt_text("1+1?").startswith(bos)
        return self.tokenizer.bos_id if written or self.tokenizer.settings.get("add_bos_token") is True else None

    @cached_property
    def stop_ids(self) -> list[int]:
        """Ids that end a completion: the one that rows train, then the tokenizer's end of text (of base models)."""
        trained = self.tokenizer.control_tokens[self.stop_text]
        eos = self.tokenizer.eos_id
        return [trained] if eos is None or eos == trained else [trained, eos]

    def control_counts(self, asked: Asked, calls: str, thinks: bool = False) -> list[int]:
        """Numbers of control tokens that the template itself writes: in the prompt, and in the completion.

        A row with more of them has some in a user's text, where they would forge or end a turn. ``calls``: the tool
        calls of the completion; ``thinks``: whether it begins with its reasoning.
        """
        # These numbers depend on roles, tools and calls, but not on texts.
        key = (tuple([turn[:1] + turn[2:] for turn in asked.turns]), asked.tools, calls, thinks)
        if key not in self._counts:
            thought = f"{THOUGHT}a\n{THOUGHT_END}" if self.thinking else f"{THINK}a\n</think>\n\n"
            any_said = Turn("assistant", f"{thought}a" if thinks else "a", more=calls)
            alike = asked._replace(turns=tuple([turn._replace(text="a") for turn in asked.turns]))
            read = self._render(alike)
            prompt = self.with_bos(self.tokenizer.encode(read))
            learned = self.tokenizer.encode(self.learned_text(alike, any_said, read))
            controls = self.tokenizer.control_ids
            self._counts[key] = [sum(i in controls for i in prompt), sum(i in controls for i in learned)]
        return self._counts[key]

    @cached_property
    def _counts(self) -> dict[tuple[object, ...], list[int]]:
        return {}

    @cached_property
    def note(self) -> str:
        """A sentence about unexpected text that is learned; empty if there is none."""
        if self.header.strip() in _EMPTY_THOUGHTS:
            return ""
        return (f"chat template `{self.name}` has no generation prompt: {_excerpt(self.header)} is learned as the "
                "beginning of every answer")

    @cached_property
    def header(self) -> str:
        """Text that the template writes between the prompt and an answer without reasoning."""
        return self._probe.partition("2")[0]

    @cached_property
    def _probe(self) -> str:
        """What the template writes after a prompt whose answer is 2."""
        asked = Asked.of("1+1?")
        rest, _ = self._rest(self._render(asked), self._render(asked, Turn("assistant", "2")))
        return rest

    @cached_property
    def stop_text(self) -> str:
        """The first control token after an answer."""
        tail = self._probe.partition("2")[2]
        tokens = [token for token in self.tokenizer.control_tokens if token in tail]
        if not tokens:
            raise self._wrong("no control token follows the answer, so the model would never learn to stop")
        # Of tokens that begin at the same place the longest is meant.
        return min(tokens, key=lambda token: (tail.find(token), -len(token)))

    def _rest(self, before: str, conversation: str) -> tuple[str, bool]:
        """The text of a conversation after its prompt, and whether the prompt has opened a `<think>` block itself.

        A prompt may end with an opening tag or an empty channel that the template leaves out of a finished turn.
        """
        for end in ("", THINK, _NO_THOUGHT):
            if before.endswith(end) and conversation.startswith(before.removesuffix(end)):
                return conversation[len(before) - len(end):], end == THINK
        raise self._wrong("the prompt with its answer does not begin with the prompt alone")

    @cached_property
    def _template(self) -> jinja2.Template:
        # transformers' settings, for which templates are written.
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                    extensions=["jinja2.ext.loopcontrols", _GenerationMarks])
        environment.globals["raise_exception"] = _raise
        environment.filters["tojson"] = _to_json
        try:
            return environment.from_string(self.source)
        except jinja2.TemplateError as error:
            raise self._wrong(f"it cannot be read: {error}") from None

    @cached_property
    def _conversation_forms(self) -> ConversationForms:
        return ConversationForms(self._template.environment, self.source, self._names)

    @cached_property
    def _names(self) -> dict[str, Any]:
        """The template's variables besides a conversation."""
        # Without tools transformers passes None as well, which templates tell from an empty list.
        return {name: self.tokenizer.special_text(name) for name in ("bos_token", "eos_token")} | {"tools": None}

    def _render(self, asked: Asked, said: Turn | None = None) -> str:
        """The conversation up to a completion that is asked for, or up to the end of the completion ``said``."""
        turns = asked.turns if said is None else (*asked.turns, said)
        if not asked.tools and not any(turn.more for turn in turns):
            form = self._conversation_forms.find(tuple(turn.role for turn in turns), said is None)
            if form is not None:
                return form.filled([turn.text for turn in turns])
        names = {**self._names, "tools": json.loads(asked.tools)} if asked.tools else self._names
        try:
            return self._template.render(messages=[turn.message() for turn in turns],
                                         add_generation_prompt=said is None, **names)
        # The ways in which a template can fail on plain texts.
        except (jinja2.TemplateError, TypeError, ValueError, OverflowError, MemoryError) as error:
            raise self._wrong(f"it fails: {error}", "a template that takes these turns",
                              "another data.template, or data without such turns") from None

    def _wrong(self, reason: str,
               expected: str = "a template whose answer follows its prompt and ends with a control token",
               try_next: str = "a tokenizer whose chat template does so, or data.template=plain, which writes no turns",
               ) -> RequestError:
        return RequestError(f"chat template `{self.name}`: {reason}", expected, try_next)


class _GenerationMarks(Extension):
    """Ignores `{% generation %}` and `{% endgeneration %}`, which mark the assistant's text in some templates."""

    tags = {"generation"}  # noqa: RUF012 - declared so by jinja2

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """The text between the marks."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _excerpt(text: str) -> str:
    """The beginning of a text for messages, quoted."""
    return repr(text if len(text) <= 40 else text[:39] + "…")


def _tool_name(tool: Any) -> str:
    """The name in a tool's description, which is in `function` or is the description itself."""
    described = tool.get("function", tool) if isinstance(tool, dict) else {}
    return str(described.get("name", "")) if isinstance(described, dict) else ""


def _leaves(value: Any) -> list[str]:
    """The texts and numbers of a JSON value, as texts."""
    if isinstance(value, dict):
        return [leaf for inner in value.values() for leaf in _leaves(inner)]
    if isinstance(value, list):
        return [leaf for inner in value for leaf in _leaves(inner)]
    return [value] if isinstance(value, str) else [json.dumps(value)]


def _end_of(value: str, text: str, start: int) -> int:
    """Where a value ends in a text, from ``start`` on; -1 if it is not there."""
    # As it is, as JSON, or as Python's `True` and `None`.
    forms = (value, json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(value)[1:-1], value.title())
    ends = [text.find(form, start) + len(form) for form in forms if text.find(form, start) >= 0]
    return max(ends, default=-1)


def _to_json(value: object, **options: object) -> str:
    """The filter `tojson` as transformers has it: without HTML escapes."""
    return json.dumps(value, ensure_ascii=False, indent=cast(int | None, options.get("indent")))


def _raise(message: str) -> None:
    """The function `raise_exception`, by which templates refuse a conversation."""
    raise jinja2.TemplateError(message)
