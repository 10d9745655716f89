r"""Encodes examples as tokens, and checks that each teaches what it should.

An example is a conversation and the completion that is learned after it:

    read, not learned                                         learned
    <bos><start_of_turn>user\n1+1?<end_of_turn>\n…model\n         2<end_of_turn>

Every example is checked before the first step: it has exactly one BOS, it ends with the stop token, its tokens decode
to its text, and no text of the data ends or forges a turn. `RequestError` names the first example that fails.

With `data.learn: all` every turn of the assistant is learned and checked like this. Its text must also be what the chat
template writes in the whole conversation.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice, pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from workings.errors import RequestError
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer
from workings.models.turns import Asked

Item = TypeVar("Item")
_Turn = tuple[list[int], list[int], str]
"""The tokens since the learned turn before, those of a learned turn, and these decoded."""

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


class Encoded(NamedTuple):
    """An example as tokens."""

    example: Example
    tokens: np.ndarray
    """int32 ``[S]``: everything before the completion, BOS and turn marks included, and the completion."""
    loss_mask: np.ndarray
    """uint8 ``[S]``: 1 for the tokens of learned turns, their stop tokens included; the completion comes last."""


def encoded(examples: Iterable[Example], tokenizer: Tokenizer, template: ChatTemplate) -> Iterator[Encoded]:
    """Examples as checked tokens, in their order. Raises `RequestError` naming the example that fails a check."""
    for chunk in _computed_ahead(_encoded_turns(examples, tokenizer, template)):
        joined = [_joined(example, turns, template) for example, turns in chunk]
        # The examples share one array, because an array for each takes far longer.
        tokens = np.fromiter(chain.from_iterable(ids for ids, _ in joined), np.int32)
        sizes = [size for _, sizes in joined for size in sizes]
        loss_mask = np.repeat(np.tile(np.array([0, 1], np.uint8), len(sizes) // 2), sizes)
        controls_before = np.concatenate([[0], np.cumsum(np.isin(tokens, [*tokenizer.control_ids]))])
        controls = iter(np.diff(controls_before[np.cumsum([0, *sizes])]).tolist())
        end = 0
        for (example, turns), (ids, sizes) in zip(chunk, joined, strict=True):
            *of_prompt, of_completion = islice(controls, len(sizes))
            prompt = ids[:-sizes[-1]] if sizes[-1] else ids
            _check(example, prompt, turns, [sum(of_prompt), of_completion], template)
            start, end = end, end + len(ids)
            # Without BOS a raw text has no prompt, and then nothing predicts its first token.
            if not prompt:
                loss_mask[start] = 0
            yield Encoded(example, tokens[start:end], loss_mask[start:end])


def _computed_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The same items. A thread computes the next one while the caller uses the one before."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item


def _encoded_turns(examples: Iterable[Example], tokenizer: Tokenizer, template: ChatTemplate
                   ) -> Iterator[list[tuple[Example, list[_Turn]]]]:
    """Chunks of examples with their learned turns."""
    remaining = iter(examples)
    while chunk := list(islice(remaining, _CHUNK)):
        turns_of_examples = [_learned_turns(example, template) for example in chunk]
        # Prompt and completion apart: encoded as one text, tokens could merge across the border. Generation starts
        # after the prompt's tokens and would never see such a token.
        ids = tokenizer.encode_batch([text for turns in turns_of_examples for turn in turns for text in turn])
        tokens = zip(ids[::2], ids[1::2], tokenizer.decode_batch(ids[1::2]), strict=True)
        yield [(example, list(islice(tokens, len(turns))))
               for example, turns in zip(chunk, turns_of_examples, strict=True)]


def _learned_turns(example: Example, template: ChatTemplate) -> list[tuple[str, str]]:
    """For each learned turn the text since the one before, and its own text; the completion comes last.

    From the second turn on the first text begins with the stop token of the turn before.
    """
    asked = example.asked
    try:
        earlier = template.earlier_turns(asked) if example.learns_earlier else []
        turns = [*earlier, template.read_and_learned(asked, example.completion, example.calls)]
        if not earlier:
            return turns
        # So far each turn has the whole conversation before it. Cut that to the text after the turn before.
        stop = template.tokenizer.token(template.stop_ids[0])
        # With the stop token, because some tokenizers encode the start of a text differently.
        return turns[:1] + [(stop + read[len(read_before) + len(learned_before):], learned)
                            for (read_before, learned_before), (read, learned) in pairwise(turns)]
    except RequestError as error:
        _refuse_control_tokens(example, example.parts, template.tokenizer)
        _, answer = template.split_thought(example.completion)
        if answer != answer.strip():
            raise RequestError(f"{example.name}: its completion has white space around it, which chat template "
                               f"`{template.name}` leaves out", "a completion without it") from None
        raise RequestError(f"{example.name}: {error.given}", error.expected, error.try_next) from None


def _joined(example: Example, turns: list[_Turn], template: ChatTemplate) -> tuple[list[int], list[int]]:
    """All tokens of the turns, and the lengths of their parts in turn: not learned, learned, not learned, learned."""
    sizes: list[int] = []
    # After encoding, because `encode` adds no special token and the template may or may not write BOS itself.
    ids = template.with_bos(turns[0][0])
    for number, (read, learned, _) in enumerate(turns):
        if number:
            if read[:1] != template.stop_ids[:1] or len(read) == 1:
                raise _failed(example, f"there is no other turn between turn {number} of the assistant and its next "
                                       "one", "turns of the assistant with another speaker's between them")
            # The learned turn ends with the stop token that the next text begins with.
            ids = ids + read[1:]
        sizes += len(ids) - sum(sizes), len(learned)
        ids = ids + learned
    return ids, sizes


def _check(example: Example, prompt: list[int], turns: list[_Turn], controls: list[int],
           template: ChatTemplate) -> None:
    """Check an example (see the module's text). ``controls``: numbers of control tokens in prompt and completion."""
    tokenizer, bos, stop = template.tokenizer, template.bos_id, template.stop_ids[0]
    asked = example.asked
    # Control tokens first, because a forged turn also fails the checks below, with reasons that would mislead.
    if further := [text for text in (asked.tools, example.calls, *[turn.more for turn in asked.turns]) if text]:
        _refuse_control_tokens(example, further, tokenizer)
    # Counted as ids, not searched for as text: only what the tokenizer takes for a control token does harm.
    if controls != template.control_counts(asked, example.calls, example.thinks):
        _refuse_control_tokens(example, [*example.parts, *[turn.text for turn in asked.turns]], tokenizer)
        raise _failed(example, "its text has control tokens that are not found one by one", _FORGES_NOTHING)
    if bos is not None:
        # With one token for both ends of a text (GPT-2), the assistant's earlier turns end with it too.
        turn_ends = sum(turn.role == "assistant" for turn in asked.turns) if bos == stop else 0
        bos_count = prompt.count(bos) - turn_ends
        if prompt[0] != bos or bos_count != 1:
            raise _failed(example, f"the prompt has {bos_count} BOS tokens", "exactly one, at the start")
    earlier = asked.turns if example.learns_earlier else ()
    earlier_texts = [(turn.text,) for turn in earlier if turn.role == "assistant" and turn.learned]
    for (_, tokens, text), parts in zip(turns, [*earlier_texts, example.parts], strict=True):
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


def _refuse_control_tokens(example: Example, texts: Sequence[str], tokenizer: Tokenizer) -> None:
    if found := [token for token in tokenizer.control_tokens if any(token in text for text in texts)]:
        raise _failed(example, f"its text has control tokens: {', '.join(found)}", _FORGES_NOTHING)


def _failed(example: Example, given: str, expected: str) -> RequestError:
    return RequestError(f"{example.name}: {given}", expected,
                        "workings data preview RECIPE shows the row as the model will see it")
