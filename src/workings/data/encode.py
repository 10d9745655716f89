r"""Encodes examples as tokens, and checks that each teaches what it should.

An example is a conversation and the completion that is learned after it:

    read, not learned                                         learned
    <bos><start_of_turn>user\n1+1?<end_of_turn>\n…model\n         2<end_of_turn>

Every example is checked before the first step: it has exactly one BOS, it ends with the stop token, its tokens decode
to its text, and no text of the data ends or forges a turn. `RequestError` names the first example that fails.

With `data.learn: all` every turn of the assistant is learned and checked like this. Its text must also be what the chat
template writes in the whole conversation.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, pairwise
from typing import NamedTuple, TypeVar

from workings.errors import RequestError
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer
from workings.models.turns import Asked, Turn

Item = TypeVar("Item")

_FORGES_NOTHING = "text that cannot end or forge a turn"
_CHUNK = 1024
"""Examples that are encoded at a time: enough for all cores, little enough for memory."""


class Example(NamedTuple):
    """A prompt, and the completion that is learned after it, as texts."""

    id: str
    name: str
    """Its name in messages."""
    prompt: str
    """The question, without any chat turn around it."""
    asked: Asked
    """The question with all turns before the completion."""
    completion: str
    """The text that the model has to write, without any chat turn around it."""
    parts: tuple[str, ...]
    """Texts of the completion that its tokens must decode to."""
    thinks: bool
    """Whether the completion begins with its reasoning; see `ChatTemplate.begins_with_reasoning`."""
    calls: str = ""
    """Tool calls at the end of the completion; see `workings.data.traces.Trace.calls`."""
    learns_earlier: bool = False
    """Whether the assistant's turns before the completion are learned too, except marked ones."""

    @property
    def said(self) -> Turn:
        """The completion as a turn."""
        return Turn("assistant", self.completion, more=self.calls)

    @property
    def learned_parts(self) -> list[tuple[str, ...]]:
        """The texts that the tokens of each learned turn must decode to; `parts` come last."""
        earlier = self.asked.turns if self.learns_earlier else ()
        return [*((turn.text,) for turn in earlier if turn.role == "assistant" and turn.learned), self.parts]


class Encoded(NamedTuple):
    """An example as tokens."""

    example: Example
    prompt: list[int]
    """Everything before the completion, BOS and turn marks included. Only the tokens in ``earlier`` are learned."""
    completion: list[int]
    """Up to and including the stop token; learned."""
    earlier: tuple[tuple[int, int], ...] = ()
    """(start, end) in ``prompt`` of each earlier learned turn, its stop token included."""

    @property
    def learned_turns(self) -> list[list[int]]:
        """Tokens of each learned turn; the completion comes last."""
        return [*(self.prompt[start:end] for start, end in self.earlier), self.completion]


class _LearnedTurn(NamedTuple):
    """A turn that is learned, as text."""

    read: str
    """The text since the learned turn before. From the second turn on it begins with that turn's stop token."""
    learned: str


class _TurnTokens(NamedTuple):
    """The tokens of a `_LearnedTurn`."""

    read: list[int]
    learned: list[int]


def encoded(examples: Iterable[Example], tokenizer: Tokenizer, template: ChatTemplate) -> Iterator[Encoded]:
    """Examples as checked tokens, in their order. Raises `RequestError` naming the example that fails a check."""
    for chunk in _computed_ahead(_encoded_chunks(examples, tokenizer, template)):
        texts = iter(tokenizer.decode_batch([tokens for each in chunk for tokens in each.learned_turns]))
        for each in chunk:
            _check(each, [next(texts) for _ in each.learned_turns], template)
            yield each


def _computed_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The same items. A thread computes the next one while the caller uses the one before."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item


def _encoded_chunks(examples: Iterable[Example], tokenizer: Tokenizer, template: ChatTemplate
                    ) -> Iterator[list[Encoded]]:
    remaining = iter(examples)
    while chunk := list(islice(remaining, _CHUNK)):
        turns_of_examples = [_learned_turns(example, template) for example in chunk]
        # Prompt and completion apart: encoded as one text, tokens could merge across the border. Generation starts
        # after the prompt's tokens and would never see such a token.
        tokens = iter(tokenizer.encode_batch([text for turns in turns_of_examples for turn in turns for text in turn]))
        yield [_joined(example, [_TurnTokens(read=next(tokens), learned=next(tokens)) for _ in turns], template)
               for example, turns in zip(chunk, turns_of_examples, strict=True)]


def _learned_turns(example: Example, template: ChatTemplate) -> list[_LearnedTurn]:
    """The learned turns of an example; the completion comes last."""
    asked = example.asked
    try:
        earlier = template.earlier_turns(asked) if example.learns_earlier else []
        read = template.read_text(asked)
        completion = template.learned_text(asked, example.said, read)
        turns = [_LearnedTurn(*turn) for turn in (*earlier, (read, completion))]
        if not earlier:
            return turns
        # So far each turn has the whole conversation before it. Cut that to the text after the turn before.
        stop = template.tokenizer.token(template.stop_ids[0])
        # With the stop token, because some tokenizers encode the start of a text differently.
        return turns[:1] + [_LearnedTurn(stop + turn.read[len(before.read) + len(before.learned):], turn.learned)
                            for before, turn in pairwise(turns)]
    except RequestError as error:
        _refuse_control_tokens(example, example.parts, template.tokenizer)
        _, answer = template.split_thought(example.completion)
        if answer != answer.strip():
            raise RequestError(f"{example.name}: its completion has white space around it, which chat template "
                               f"`{template.name}` leaves out", "a completion without it") from None
        raise RequestError(f"{example.name}: {error.given}", error.expected, error.try_next) from None


def _joined(example: Example, turns: list[_TurnTokens], template: ChatTemplate) -> Encoded:
    """The tokens of all turns, concatenated. The last turn is the completion."""
    # After encoding, because `encode` adds no special token and the template may or may not write BOS itself.
    prompt = template.with_bos(turns[0].read)
    earlier = []
    for number, (turn, following) in enumerate(pairwise(turns), start=1):
        if following.read[:1] != template.stop_ids[:1] or len(following.read) == 1:
            raise _failed(example, f"there is no other turn between turn {number} of the assistant and its next one",
                          "turns of the assistant with another speaker's between them")
        earlier.append((len(prompt), len(prompt) + len(turn.learned)))
        # The learned turn ends with the stop token that the next text begins with.
        prompt = prompt + turn.learned + following.read[1:]
    return Encoded(example, prompt, turns[-1].learned, tuple(earlier))


def _check(encoded: Encoded, learned_texts: list[str], template: ChatTemplate) -> None:
    """Check an example (see the module's text). ``learned_texts``: its learned turns, decoded."""
    example, tokenizer = encoded.example, template.tokenizer
    bos, stop = template.bos_id, template.stop_ids[0]
    # First, because a forged turn also fails the checks below, with reasons that would mislead.
    _refuse_forged_turns(encoded, template)
    if bos is not None:
        # With one token for both ends of a text (GPT-2), the assistant's earlier turns end with it too.
        turn_ends = sum(turn.role == "assistant" for turn in example.asked.turns) if bos == stop else 0
        bos_count = encoded.prompt.count(bos) - turn_ends
        if encoded.prompt[0] != bos or bos_count != 1:
            raise _failed(example, f"the prompt has {bos_count} BOS tokens", "exactly one, at the start")
    for tokens, text, parts in zip(encoded.learned_turns, learned_texts, example.learned_parts, strict=True):
        if not tokens:
            raise _failed(example, "there is no supervised token", "at least one")
        if tokens[-1] != stop or tokens.count(stop) != 1:
            raise _failed(example, f"the last learned token is {tokenizer.token(tokens[-1])}",
                          f"the stop token {tokenizer.token(stop)}, once, at the end")
        # A tokenizer may drop a character that it does not know. White space may differ: some decoders add or take a
        # space at a border.
        for part in parts:
            if part not in text and "".join(part.split()) not in "".join(text.split()):
                raise _failed(example, f"the learned tokens read {text!r} and do not hold {part!r}",
                              "a tokenizer that decodes to the original text")


def _refuse_forged_turns(encoded: Encoded, template: ChatTemplate) -> None:
    """Raise `RequestError` where a text of the data has control tokens."""
    example, tokenizer = encoded.example, template.tokenizer
    turns = example.asked.turns
    _refuse_control_tokens(example, (example.asked.tools, example.calls, *(turn.more for turn in turns)), tokenizer)
    # Counted as ids, not searched for as text: only what the tokenizer takes for a control token does harm.
    is_control = tokenizer.control_ids.__contains__
    counts = sum(map(is_control, encoded.prompt)), sum(map(is_control, encoded.completion))
    if counts != template.control_counts(example.asked, example.said, example.thinks):
        _refuse_control_tokens(example, (*example.parts, *(turn.text for turn in turns)), tokenizer)
        raise _failed(example, "its text has control tokens that are not found one by one", _FORGES_NOTHING)


def _refuse_control_tokens(example: Example, texts: Iterable[str], tokenizer: Tokenizer) -> None:
    written = [text for text in texts if text]
    # A vocabulary can hold thousands of control tokens, so most examples give no text here.
    found = [token for token in tokenizer.control_tokens if any(token in text for text in written)] if written else []
    if found:
        raise _failed(example, f"its text has control tokens: {', '.join(found)}", _FORGES_NOTHING)


def _failed(example: Example, given: str, expected: str) -> RequestError:
    return RequestError(f"{example.name}: {given}", expected,
                        "workings data preview RECIPE shows the row as the model will see it")
