"""Chat turns around a prompt and an answer: Gemma's, the tokenizer's own, or none.

A row is the prompt's tokens followed by the completion's tokens, encoded apart, as generation sees them. The prompt is
what the template writes when it is asked for an answer, the completion is the rest; no generation marks are needed.

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
from workings.models.conversation_form import ConversationForms
from workings.models.tokenizer import Tokenizer
from workings.models.turns import Asked, Turn

_TURN_MARKS = {name: tokens for name, tokens in TEMPLATES.items() if name != "tokenizer"}
"""Templates that come with this package, and the tokens that they need."""

THINK = "<think>\n"
"""Begins a completion that reasons before it answers, as templates of thinking models write it."""
NO_THOUGHTS = "<think>\n\n</think>\n\n"
"""Ends the prompt of models that are asked not to think (Qwen 3.5's small ones, unless they are told to)."""
CHANNEL = "channel"
"""The value of the recipe key `data.reasoning` that switches on Gemma 4's thinking."""
THOUGHT, THOUGHT_END = "<|channel>thought\n", "<channel|>"
"""Marks before and after Gemma 4's reasoning."""
_ASKS_FOR_THOUGHT = "<|think|>"
_CHANNEL_TOKENS = ("<|channel>", THOUGHT_END)
# A default, so that users of an exported model can still switch thinking off.
_THINKING_ON = "{% set enable_thinking = enable_thinking | default(true) %}"
_NO_THOUGHT = THOUGHT + THOUGHT_END
"""Ends the prompt of Gemma 4's larger models (12B, 26B-A4B, 31B) where thinking is off."""

Turns = Sequence[tuple[str, str] | Turn]
"""Earlier turns, as (role, text) where they say nothing else."""
_EMPTY_THOUGHTS = ("", NO_THOUGHTS.strip(), _NO_THOUGHT.strip())
"""What a template may write before an answer without thoughts, white space aside."""


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

        Of the values of `data.reasoning` `channel` switches on Gemma 4's thinking, and `think` that of models whose
        prompts end it before it begins (Qwen 3.5 0.8B and 2B). Raises `RequestError` when the tokenizer lacks the
        template or the tokens that it needs, or `channel` is asked of a template that is not Gemma 4's.
        """
        made = cls._named(template, tokenizer)
        if reasoning == CHANNEL:
            return made._thinking()
        return made._opened() if reasoning == "think" else made

    @classmethod
    def _named(cls, template: str, tokenizer: Tokenizer) -> "ChatTemplate":
        if template == "tokenizer":
            if tokenizer.chat_template is None:
                raise RequestError("data.template is tokenizer, but this tokenizer has no chat template",
                                   "a tokenizer that has one", "data.template=plain")
            return cls(template, tokenizer.chat_template, tokenizer)
        if template not in _TURN_MARKS:
            raise RequestError(f"data.template cannot be {template}", f"tokenizer, {' or '.join(_TURN_MARKS)}")
        # A mark that is not in the vocabulary would be cut into ordinary pieces, and the model would never see a turn.
        missing = [token for token in _TURN_MARKS[template] if tokenizer.token_id(token) is None]
        if missing or (_TURN_MARKS[template] and tokenizer.bos_id is None):
            unknown = ", ".join(missing) or "BOS"
            raise RequestError(f"the tokenizer does not know {unknown} of data.template: {template}",
                               "a tokenizer of the Gemma family",
                               "data.template=tokenizer, or data.template=plain, which writes no turns")
        # `plain` writes no turn marks, so the end of the text is the only token that can stop the model.
        if template == "plain" and tokenizer.eos_id is None:
            raise RequestError("data.template is plain, but the tokenizer has no end-of-text token",
                               "a token that tells the model to stop", "data.template=tokenizer")
        source = files("workings.models").joinpath(f"templates/{template}.jinja").read_text(encoding="utf-8")
        return cls(template, source.removesuffix("\n"), tokenizer)

    def _opened(self) -> "ChatTemplate":
        """The template with thinking enabled, for templates whose prompts would end the thinking before it begins."""
        if not self.prompt_text("1+1?").endswith(NO_THOUGHTS):
            return self
        # Rendered, because a template may decide about thinking in any way.
        told = replace(self, source=_THINKING_ON + self.source)
        return told if told.prompt_text("1+1?").endswith(THINK) else self

    def _thinking(self) -> "ChatTemplate":
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
        # Rendered, because a template without the variable would silently leave thinking off.
        if made.prompt_text("1+1?").count(_ASKS_FOR_THOUGHT) != 1:
            raise RequestError(f"data.reasoning is {CHANNEL}, but the tokenizer's chat template does not write "
                               f"{_ASKS_FOR_THOUGHT}", "the chat template of a Gemma 4 model", "data.template=gemma4")
        return made

    def prompt_text(self, prompt: str, history: Turns = ()) -> str:
        """Text before the completion of a question, BOS and turn marks included; errors as of `read_text`."""
        return self.read_text(Asked.of(prompt, history))

    def completion_text(self, prompt: str, completion: str, history: Turns = ()) -> str:
        """Text that the model has to write after `prompt_text`; see `learned_text`."""
        asked = Asked.of(prompt, history)
        return self.learned_text(asked, Turn("assistant", completion), self._render(asked, (), True))

    def read_text(self, asked: Asked) -> str:
        """Text before a completion, BOS included. Raises `RequestError` if the template changes it or hides tools."""
        text = self._render(asked, (), True)
        self.refuse_other_texts(asked, text)
        return text

    def learned_text(self, asked: Asked, said: Turn, read: str) -> str:
        """Text that the model has to write after ``read``, the rendered ``asked``: the completion and the stop token.

        An empty block of thinking that the template puts before the completion stays: the model has to write it, too.
        Raises `RequestError` when the template does not continue its own prompt, rewrites the completion or never
        stops.
        """
        # Gemma 4's template leaves the channel out of every turn that it is given. The model writes it first of all.
        thought, answer = self.split_thought(said.text)
        if thought:
            said = said._replace(text=answer)
        return thought + self._learned_as_rendered(asked, said, read)

    def observation_ids(self, text: str) -> list[int]:
        """Tokens after an answer's stop token up to the next answer, for a user's turn. Raises `RequestError`."""
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

        Raises `RequestError` if the template changes a turn later in the conversation.
        """
        spoken = [number for number, turn in enumerate(asked.turns) if turn.role == "assistant"]
        learned_turns = [(turn, place) for turn, place in enumerate(spoken, start=1) if asked.turns[place].learned]
        # What the model is shown before each of its turns, the one that is still to come included.
        before = [self._render(replace(asked, turns=asked.turns[:place]), (), True)
                  for place in [*(place for _, place in learned_turns), len(asked.turns)]]
        earlier = []
        for (turn, place), read, shown in zip(learned_turns, before, before[1:], strict=False):
            if not shown.startswith(read):
                raise self._rewritten(turn, read, shown)
            learned = self._learned_earlier(replace(asked, turns=asked.turns[:place]), asked.turns[place], turn, read)
            if not shown.startswith(read + learned):
                raise self._rewritten(turn, read + learned, shown)
            earlier.append((read, learned))
        return earlier

    def _learned_earlier(self, asked: Asked, said: Turn, turn: int, read: str) -> str:
        """`learned_text` of the assistant's turn of this number, without white space where that is left out."""
        try:
            return self.learned_text(asked, said, read)
        except RequestError as error:
            # Templates that trim the last answer trim the earlier ones as well, and then that is what is shown.
            if said.text != said.text.strip():
                return self._learned_earlier(asked, said._replace(text=said.text.strip()), turn, read)
            raise RequestError(f"turn {turn} of the assistant: {error.given}", error.expected, error.try_next) from None

    def refuse_other_texts(self, asked: Asked, text: str) -> None:
        """Raise `RequestError` where a turn or a tool is not in the prompt as it was given."""
        at = 0
        for number, turn in enumerate(asked.turns, start=1):
            ends = [found + len(form) for form in self._forms(turn) if (found := text.find(form, at)) >= 0]
            if not ends:
                raise RequestError(
                    f"chat template `{self.name}` leaves out or changes turn {number} ({turn.role}): "
                    f"{_excerpt(turn.text)}", "a template that writes the text of every turn, in order",
                    "another data.template, or data without such turns")
            at = min(ends)
            self._after_calls(text, at, turn)
        if asked.tools and (text == self._render(replace(asked, tools=""), (), True)
                            or any(name not in text for name in map(_tool_name, json.loads(asked.tools)))):
            raise RequestError(f"chat template `{self.name}` does not show the tools that the data describe",
                               "a template that takes `tools`, as those of models that call tools do",
                               "the template of a model that calls tools, or import the data with --ignore tools")

    def _forms(self, turn: Turn) -> list[str]:
        """The ways in which a template may write a turn: trimmed, and of the assistant without its thoughts."""
        forms = [turn.text.strip()]
        if turn.role == "assistant":
            # Templates of thinking models leave the thoughts of earlier turns out, as those models were trained.
            forms += [turn.text.rpartition(end)[2].strip() for end in ("</think>", THOUGHT_END) if end in turn.text]
        if turn.role == "tool":
            forms.append(json.dumps(turn.text, ensure_ascii=False)[1:-1])
        return forms

    def _after_calls(self, text: str, at: int, turn: Turn) -> int:
        """The end of a turn's calls of tools in a text, from a position on; that position without calls."""
        for call in json.loads(turn.more).get("tool_calls", ()) if turn.has_calls else ():
            # A template may write a value as JSON or as it is; each has to follow its tool's name.
            name = call["function"]["name"]
            start = text.find(name, at)
            ends = [_end_of(value, text, start) for value in _leaves(call["function"].get("arguments", {}))]
            if start < 0 or -1 in ends:
                raise self._wrong(f"it leaves out or changes a call of the tool {name}",
                                  "a template that writes calls of tools", "the template of a model that calls tools")
            at = max([start + len(name), *ends])
        return at

    def _rewritten(self, turn: int, at_first: str, later: str) -> RequestError:
        """Error for a turn (the assistant's first is 1) that is rendered differently later in the conversation."""
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
        """Whether a completion, without its stop token, has control tokens next to those of its channel."""
        # Rendered again, a completion with a turn mark would become several turns.
        control = [each for each in ids if each in self.tokenizer.control_ids]
        channel = [self.tokenizer.token_id(token) for token in _CHANNEL_TOKENS]
        return bool(control) and not (self.thinking and control == channel and ids[0] == channel[0])

    def _learned_as_rendered(self, asked: Asked, said: Turn, before: str) -> str:
        """`learned_text` of a completion without a channel."""
        completion = said.text
        rest, opened = self._rest(before, self._render(asked, (said,), False))
        # The prompt ends with the opening tag already, so generation begins after it.
        if before.endswith(THINK) and completion.startswith(THINK):
            completion = completion.removeprefix(THINK)
            if opened:
                return completion + self.stop_text
        # The answer has to be there letter by letter: some templates drop or trim reasoning.
        start = rest.find(completion)
        if opened or start < 0:
            raise self._wrong("it opens or rewrites the answer, so the reasoning would not be trained as written")
        # After the answer, whose own text may hold the stop token; such a row is refused later, when it is proved.
        end = self._after_calls(rest, start + len(completion), said)
        stop = rest.find(self.stop_text, end)
        if stop < 0:
            raise self._wrong("the stop token does not follow the answer")
        if not said.has_calls:
            # The last time, because the text before it may hold the same letters.
            self._refuse_additions(rest[:rest.rfind(completion, 0, stop)], completion)
            end = rest.rfind(completion, 0, stop) + len(completion)
            if rest[end:stop].strip():
                raise self._wrong(f"it adds {_excerpt(rest[end:stop])} after the answer")
        return rest[:stop + len(self.stop_text)]

    def _refuse_additions(self, added: str, completion: str) -> None:
        """Raise `RequestError` where the template writes reasoning before an answer that brings its own, or a text."""
        if THINK.strip() in added and "</think>" in completion:
            raise self._wrong("it writes a second block of thinking before an answer that begins with one")
        if added.strip() not in (*_EMPTY_THOUGHTS, self.header.strip()):
            raise self._wrong(f"it adds {_excerpt(added)} before the answer")

    def prompt_ids(self, prompt: str, history: Turns = ()) -> list[int]:
        """Token ids of `prompt_text`, with exactly one BOS where the tokenizer has one."""
        return self.with_bos(self.tokenizer.encode(self.prompt_text(prompt, history)))

    def with_bos(self, ids: list[int]) -> list[int]:
        """Put BOS in front where the tokenizer is told to add it and the template does not write it."""
        # Only the first token counts: the check of rows finds a further BOS.
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

    def control_counts(self, asked: Asked, said: Turn, thinks: bool = False) -> tuple[int, int]:
        """Control tokens that the template itself writes: in the prompt, and in the completion.

        A row with more of them has some in a user's text, where they would forge or end a turn. Tools and calls are
        counted as they are; ``thinks``: whether the completion begins with its reasoning.
        """
        # The template's own control tokens depend on the roles and not on the texts, so any text does.
        turns = tuple(turn._replace(text="a") for turn in asked.turns)
        key = (turns, asked.tools, said.more, thinks)
        if key not in self._counts:
            thought = f"{THOUGHT}a\n{THOUGHT_END}" if self.thinking else f"{THINK}a\n</think>\n\n"
            any_said = said._replace(text=f"{thought}a" if thinks else "a")
            alike = replace(asked, turns=turns)
            read = self._render(alike, (), True)
            prompt = self.with_bos(self.tokenizer.encode(read))
            learned = self.tokenizer.encode(self.learned_text(alike, any_said, read))
            controls = self.tokenizer.control_ids
            self._counts[key] = (sum(i in controls for i in prompt), sum(i in controls for i in learned))
        return self._counts[key]

    @cached_property
    def _counts(self) -> dict[tuple[object, ...], tuple[int, int]]:
        return {}

    @cached_property
    def note(self) -> str:
        """A sentence about unexpected text that is learned; empty without any."""
        header = self.header.strip()
        return "" if header in _EMPTY_THOUGHTS else (
            f"chat template `{self.name}` has no generation prompt: {_excerpt(self.header)} is learned as the "
            "beginning of every answer")

    @cached_property
    def header(self) -> str:
        """Text that the template writes between the prompt and an answer without reasoning."""
        return self._probe.partition("2")[0]

    @cached_property
    def _probe(self) -> str:
        """What the template writes after a prompt whose answer is 2."""
        asked = Asked.of("1+1?")
        return self._rest(self._render(asked, (), True), self._render(asked, (Turn("assistant", "2"),), False))[0]

    @cached_property
    def stop_text(self) -> str:
        """The first control token after an answer. Looked up once: a vocabulary can hold thousands of them."""
        tail = self._probe.partition("2")[2]
        # Of tokens that begin at the same place the longest is meant.
        tokens = [(at, -len(token), token) for token in self.tokenizer.control_tokens if (at := tail.find(token)) >= 0]
        if not tokens:
            raise self._wrong("no control token follows the answer, so the model would never learn to stop")
        return min(tokens)[2]

    def _rest(self, before: str, conversation: str) -> tuple[str, bool]:
        """The text after the prompt in the whole text, and whether the prompt has opened a `<think>` block itself."""
        # Templates of thinking models end the prompt with the opening tag, and drop the thoughts of a finished turn.
        # Gemma 4's larger models are prompted with an empty channel, which finished turns do not have.
        for end in ("", THINK, _NO_THOUGHT):
            if before.endswith(end) and conversation.startswith(before.removesuffix(end)):
                return conversation[len(before) - len(end):], end == THINK
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

    @cached_property
    def _conversation_forms(self) -> ConversationForms:
        return ConversationForms(self._template.environment, self.source, self._names)

    @cached_property
    def _names(self) -> dict[str, Any]:
        """The template's variables besides a conversation."""
        names = {name: self.tokenizer.special_text(name) for name in ("bos_token", "eos_token")}
        # Without tools transformers passes None as well, which templates tell from an empty list.
        return {**names, "tools": None}

    def _render(self, asked: Asked, said: Sequence[Turn], add_generation_prompt: bool) -> str:
        turns = (*asked.turns, *said)
        if not asked.tools and not any(turn.more for turn in turns):
            form = self._conversation_forms.find(tuple(turn.role for turn in turns), add_generation_prompt)
            if form is not None:
                return form.filled([turn.text for turn in turns])
        names = {**self._names, "tools": json.loads(asked.tools)} if asked.tools else self._names
        try:
            return self._template.render(messages=[turn.message() for turn in turns],
                                         add_generation_prompt=add_generation_prompt, **names)
        # A template is a foreign program, and these are the ways in which it can fail on plain texts.
        except (jinja2.TemplateError, TypeError, ValueError, OverflowError, MemoryError) as error:
            raise self._wrong(f"it fails: {error}", "a template that takes these turns",
                              "another data.template, or data without such turns") from None

    def _wrong(self, reason: str, expected: str = "a template whose answer follows its prompt and ends with a control "
               "token", try_next: str = "a tokenizer whose chat template does so, or data.template=plain, which writes "
               "no turns") -> RequestError:
        return RequestError(f"chat template `{self.name}`: {reason}", expected, try_next)


class _GenerationMarks(Extension):
    """`{% generation %}`, with which some templates mark the assistant's text: here it marks nothing."""

    tags = {"generation"}  # noqa: RUF012 - declared so by jinja2

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """The text between the marks, as it is."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _excerpt(text: str) -> str:
    """The beginning of a text, for messages; line breaks visible."""
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
    """Where a value ends in a text, written as it is or as JSON; -1 where it is not there."""
    # Python's `True` and `None` are what a template without `tojson` writes.
    forms = (value, json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(value)[1:-1], value.title())
    return max((found + len(form) if (found := text.find(form, start)) >= 0 else -1) for form in forms)


def _to_json(value: object, **options: object) -> str:
    """JSON as transformers writes it in templates: no HTML escapes, and characters as they are."""
    return json.dumps(value, ensure_ascii=False, indent=cast(int | None, options.get("indent")))


def _raise(message: str) -> None:
    """Function that templates call to refuse a conversation, such as one with a system turn."""
    raise jinja2.TemplateError(message)
