"""`data.learn: all`: of each conversation exactly the assistant's turns are learned, each as the last one would be."""

import hashlib
from dataclasses import replace

import pytest

from tests.data.conversations import conversation, conversations, said_by_the_assistant, texts
from tests.data.making import metaspace_tokenizer
from tests.models.chat_templates import CASES, QWEN, QWEN3, R1, qwen, tokenizer
from workings.config.data import DataConfig
from workings.data.batches import Batches
from workings.data.preview import marked, pieces, summarize, turns_of
from workings.data.rows import RowSet, build_rows, row_problems
from workings.data.traces import Trace
from workings.errors import RequestError
from workings.models.chat import ChatTemplate
from workings.models.tokenizer_training import train_tokenizer

TALKS = conversations(12)
TALK = conversation(7, 3, "Be short.")
GEMMA = ChatTemplate.for_config("gemma", train_tokenizer(texts([*TALKS, TALK]), 400))


def rows_of(template: ChatTemplate, *traces: Trace, learn: str = "all", **keys: object) -> RowSet:
    config = DataConfig(traces="x", **({"max_length": 400, "reasoning": "answer_only", "learn": learn} | keys))
    return build_rows(traces, template.tokenizer, template, config)


def learned_texts(template: ChatTemplate, rows: RowSet, number: int = 0) -> list[str]:
    row = rows.rows[number]
    return [template.tokenizer.decode(row.tokens[start:end].tolist()) for start, end in row.learned_turns]


# --- which tokens are learned -------------------------------------------------------------------------------------

def test_a_conversation_by_hand() -> None:
    trace = Trace(id="c", prompt="2+2?", steps=(), answer="4",
                  history=(("system", "Be short."), ("user", "1+1?"), ("assistant", "2")))
    rows = rows_of(GEMMA, trace)
    assert marked(pieces(rows.rows[0], GEMMA.tokenizer)) == (
        "<bos><start_of_turn>user⏎Be short.⏎⏎1+1?<end_of_turn>⏎<start_of_turn>model⏎«2<end_of_turn>»⏎"
        "<start_of_turn>user⏎2+2?<end_of_turn>⏎<start_of_turn>model⏎«4<end_of_turn>»")
    assert (rows.supervised_tokens, rows.learned_turns) == (4, 2)
    digests = [hashlib.sha256(text).hexdigest() for text in (b"2+2?", b"1+1?")]
    tokens = len(rows.rows[0].tokens)
    [line] = rows.index
    assert (line["prompt_digest"], line["earlier_prompt_digests"]) == (digests[0], digests[1:])
    assert line["learned_turns"] == [[line["learned_turns"][0][0], line["learned_turns"][0][0] + 2],
                                     [tokens - 2, tokens]]


@pytest.mark.parametrize("case", CASES)
def test_exactly_the_assistants_turns_are_learned_and_nothing_else_changes(case: str) -> None:
    template = CASES[case][0]()
    stop = CASES[case][2]
    # GPT-2's only mark ends each answer and begins the text; a system turn is one more text before the first question.
    rows = rows_of(template, TALK)
    said = said_by_the_assistant(TALK)
    assert learned_texts(template, rows) == [text + stop for text in said]
    row, last = rows.rows[0], rows_of(template, TALK, learn="last").rows[0]
    assert row.tokens.tolist() == last.tokens.tolist(), "the same tokens are read"
    assert last.learned_turns == row.learned_turns[-1:], "and the last turn is learned in both"
    whole = template.prompt_text(TALK.prompt, TALK.history) + template.completion_text(
        TALK.prompt, TALK.answer, TALK.history)
    assert template.tokenizer.decode(row.tokens.tolist()) == whole, "all of it is what the template writes"
    # What is not learned, put together, holds every word of the others and none of an answer.
    read = template.tokenizer.decode(row.tokens[row.loss_mask == 0].tolist())
    assert all(turn.text in read for turn in TALK.history if turn.role != "assistant")
    assert TALK.prompt in read
    assert not any(text in read for text in said)


def test_masks_agree_with_those_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    template = qwen(QWEN)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=template.tokenizer.backend, chat_template=QWEN)
    for trace in (TALK, *TALKS[:3]):
        messages = [{"role": role, "content": text} for role, text in
                    [*(turn[:2] for turn in trace.history), ("user", trace.prompt), ("assistant", trace.answer)]]
        theirs = fast.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
        row = rows_of(template, trace).rows[0]
        length = len(row.tokens)
        assert theirs["input_ids"][:length] == row.tokens.tolist()
        assert theirs["assistant_masks"][:length] == row.loss_mask.tolist()
        # After the last stop token nothing is ever generated: the rest is one line break.
        assert template.tokenizer.decode(theirs["input_ids"][length:]) == "\n"


def test_a_tokenizer_that_would_merge_an_answer_with_what_stands_before_it() -> None:
    template = ChatTemplate.for_config("plain", metaspace_tokenizer(
        texts([TALK]), {"bos_token": "<s>", "eos_token": "</s>"}))
    rows, talk = rows_of(template, TALK), said_by_the_assistant(TALK)
    assert learned_texts(template, rows) == [f"{text}</s>" for text in talk]
    # Each turn has the tokens that it has as a last turn, which is where generation writes it.
    for turn, (start, end) in enumerate(rows.rows[0].learned_turns):
        places = [at for at, turn in enumerate(TALK.history) if turn.role == "assistant"]
        place = places[turn] if turn < len(places) else len(TALK.history) + 1
        alone = replace(TALK, answer=talk[turn], history=TALK.history[:place - 1],
                        prompt=[*TALK.history, ("user", TALK.prompt)][place - 1][1])
        expected = rows_of(template, alone, learn="last").rows[0]
        assert rows.rows[0].tokens[start:end].tolist() == expected.tokens[expected.loss_mask == 1].tolist()


# --- templates that rewrite ---------------------------------------------------------------------------------------

def deepseek() -> ChatTemplate:
    return ChatTemplate.for_config("tokenizer", tokenizer(("<|User|>", "<|Assistant|>"), bos_token="<bos>",
                                                          eos_token="<eos>", chat_template=R1))


@pytest.mark.parametrize(("template", "reasoning", "first", "later"), [
    (qwen(QWEN3), "answer_only", r"'<think>\\n", r"'7\+0=7"),
    (deepseek(), "think", r"'<think>\\n'", r"'\\n\\n7\+0=7"),
])
def test_a_template_that_rewrites_earlier_turns_is_refused(
        template: ChatTemplate, reasoning: str, first: str, later: str) -> None:
    talk = conversation(7, 2)
    if reasoning == "think":
        talk = replace(talk, steps=("add",), history=tuple(
            (role, f"<think>\nadd\n</think>\n\n{text}" if role == "assistant" else text)
            for role, text, *_ in talk.history))
    with pytest.raises(RequestError, match=f"trace talk-7: .*turn 1 of the assistant.*first {first}.*later {later}") \
            as caught:
        rows_of(template, talk, reasoning=reasoning)
    assert caught.value.try_next.startswith("data.learn=last")
    assert rows_of(template, talk, reasoning=reasoning, learn="last").learned_turns == 1
    alone = replace(talk, history=())
    assert rows_of(template, alone, reasoning=reasoning).digest == rows_of(
        template, alone, reasoning=reasoning, learn="last").digest


def test_a_template_that_changes_the_words_of_a_turn_is_refused() -> None:
    source = GEMMA.source.replace("message['content'] | trim", "message['content'] | replace('7+0', '7') | trim")
    assert source != GEMMA.source
    with pytest.raises(RequestError, match=r"trace talk-7: turn 1 of the assistant: .*rewrites the answer"):
        rows_of(replace(GEMMA, source=source), TALK)


def test_white_space_around_a_turn_is_learned_where_the_template_writes_it() -> None:
    talk = Trace(id="w", prompt="2+2?", steps=(), answer="4", history=(("user", "1+1?"), ("assistant", " 2 \n")))
    assert learned_texts(GEMMA, rows_of(GEMMA, talk)) == ["2<end_of_turn>", "4<end_of_turn>"]
    plain = ChatTemplate.for_config("plain", GEMMA.tokenizer)
    assert learned_texts(plain, rows_of(plain, talk)) == [" 2 \n<eos>", "4<eos>"]


# --- what must not be learned -------------------------------------------------------------------------------------

TAGGED = "<reasoning>1+1=2</reasoning><answer>2</answer>"


@pytest.mark.parametrize(("said", "reasoning", "reason"), [
    ("  ", "answer_only", "turn 1 of the assistant, of 2, is empty"),
    ("<think>\n1+1\n</think>\n\n2", "answer_only", "holds reasoning, and data.reasoning is answer_only"),
    ("2", "tags", "is not written as data.reasoning: tags writes the last one"),
    ("<think>\n1+1\n</think>\n\n2", "tags", "is not written as data.reasoning: tags"),
    ("2<end_of_turn>3", "answer_only", "its text has control tokens: <end_of_turn>"),
    ("2<bos>", "answer_only", "its text has control tokens: <bos>"),
])
def test_an_earlier_turn_that_must_not_be_learned(said: str, reasoning: str, reason: str) -> None:
    wrong = Trace(id="bad", prompt="2+2?", steps=("2+2=4",), answer="4",
                  history=(("user", "1+1?"), ("assistant", said)))
    fine = replace(wrong, id="fine", history=(("user", "1+1?"), ("assistant", TAGGED if reasoning == "tags" else "2")))
    config = DataConfig(traces="x", max_length=200, reasoning=reasoning, learn="all")
    with pytest.raises(RequestError, match=f"trace bad: .*{reason}"):
        build_rows([fine, wrong], GEMMA.tokenizer, GEMMA, config)
    [(name, told)] = row_problems([fine, wrong], GEMMA.tokenizer, GEMMA, config)
    assert (name, reason in told) == ("bad", True)


def test_every_turn_has_the_form_of_the_last_one() -> None:
    talk = Trace(id="t", prompt="2+2?", steps=("2+2=4",), answer="4", history=(("user", "1+1?"), ("assistant", TAGGED)))
    assert learned_texts(GEMMA, rows_of(GEMMA, talk, reasoning="tags")) == [
        f"{TAGGED}<end_of_turn>", "<reasoning>2+2=4</reasoning><answer>4</answer><end_of_turn>"]


def test_a_tokenizer_that_loses_an_earlier_turn_is_caught() -> None:
    from tokenizers import normalizers

    lossy = train_tokenizer(["abc 123"], 300)
    lossy.backend.normalizer = normalizers.Sequence([normalizers.Replace("7", ""), normalizers.Replace(" ", "▁")])
    talk = Trace(id="x", prompt="p", steps=(), answer="2", history=(("user", "q"), ("assistant", "17")))
    template = ChatTemplate.for_config("gemma", lossy)
    assert rows_of(template, talk, learn="last").learned_turns == 1
    with pytest.raises(RequestError, match=r"trace x: the learned tokens read .* and do not hold '17'"):
        rows_of(template, talk)


def test_two_turns_of_the_assistant_in_a_row_are_refused() -> None:
    plain = ChatTemplate.for_config("plain", GEMMA.tokenizer)
    talk = Trace(id="x", prompt="p", steps=(), answer="2",
                 history=(("user", "q"), ("assistant", "3"), ("assistant", "4")))
    with pytest.raises(RequestError, match=r"trace x: .*turn 1 of the assistant"):
        rows_of(plain, talk)


# --- what is shown --------------------------------------------------------------------------------

def test_preview_tells_what_is_learned_of_each_turn() -> None:
    for learn, count, expected in (("last", 12, [False] * 5 + [True]), ("all", 24, [False, True] * 3)):
        rows = rows_of(GEMMA, *TALKS, learn=learn)
        batches = Batches(rows, seed=0, rows_per_micro_batch=4, accumulation=1,
                          data_config=DataConfig(traces="x", max_length=400))
        summary = summarize(rows, batches, TALKS, learn)
        assert (summary.learned_turns, summary.assistant_turns) == (count, 24)
        assert f"data.learn: {learn}: {count} of 24 turns of the assistant are learned" in summary.text()
        row = rows.rows[2]
        turns = turns_of(TALKS[2], row)
        assert [turn.learned_tokens > 0 for turn in turns] == expected
        assert sum(turn.learned_tokens for turn in turns) == row.supervised_tokens
        assert marked(pieces(row, GEMMA.tokenizer)).count("«") == sum(expected)
