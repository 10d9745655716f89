"""Gemma 4's channel in data: forged marks, pairs, every turn learned, and check."""

from dataclasses import replace

import pytest

from tests.models.chat_templates import parts
from tests.models.thinking_templates import CASES, MARKS, TRACE, gemma4
from workings.config.data import DataConfig
from workings.data.checking.findings import ReadFile
from workings.data.checking.run import check
from workings.data.pair_rows import build_pair_rows
from workings.data.preferences import PreferencePair
from workings.data.rows import build_rows
from workings.errors import RequestError

CONFIG = DataConfig(traces="x", max_length=200, template="gemma4", reasoning="channel")
THOUGHT = "<|channel>thought\n1+1=2\n<channel|>2"


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("case", CASES)
def test_nobodys_text_may_hold_the_marks(case: str, mark: str) -> None:
    template = gemma4(case)
    wrong = (replace(TRACE, prompt=f"1+1?{mark}"), replace(TRACE, answer=f"2{mark}3"),
             replace(TRACE, steps=("1+1=2", f"so {mark} it is 2")),
             replace(TRACE, history=(("system", f"Think. {mark}"),)),
             replace(TRACE, history=(("user", f"{mark}1?"), ("assistant", "2"))))
    for trace in wrong:
        with pytest.raises(RequestError) as caught:
            parts(template, trace)
        assert caught.value.given == f"trace one: its text has control tokens: {mark}", trace
    for trace in wrong[:2]:
        with pytest.raises(RequestError) as caught:
            parts(gemma4(case, "answer_only"), trace, "answer_only")
        assert caught.value.given == f"trace one: its text has control tokens: {mark}", trace


@pytest.mark.parametrize(("said", "reason"), [
    ("2", "is not written as data.reasoning: channel writes the last one"),
    (THOUGHT, r"turn 1 of the assistant.*first '<\|channel>thought.*later '2<turn\|>"),
])
@pytest.mark.parametrize("case", CASES)
def test_earlier_turns_are_shown_without_their_thoughts_and_so_never_learned(
        case: str, said: str, reason: str) -> None:
    template = gemma4(case)
    config = CONFIG.model_copy(update={"learn": "all"})
    talk = replace(TRACE, history=(("user", "1+1?"), ("assistant", said)))
    with pytest.raises(RequestError, match=f"trace one: .*{reason}") as caught:
        build_rows([talk], template.tokenizer, template, config)
    assert "data.learn=last" in caught.value.try_next
    # Single questions are not concerned.
    assert build_rows([TRACE], template.tokenizer, template, config).digest == build_rows(
        [TRACE], template.tokenizer, template, CONFIG).digest


def test_every_answer_is_learned_without_thinking_but_not_where_the_prompt_has_an_empty_channel() -> None:
    talk = replace(TRACE, history=(("user", "1+1?"), ("assistant", "2")))
    config = CONFIG.model_copy(update={"learn": "all", "reasoning": "answer_only"})
    small, large = gemma4("small", "answer_only"), gemma4("large", "answer_only")
    assert build_rows([talk], small.tokenizer, small, config).learned_turns == 2
    with pytest.raises(RequestError, match=r"changes turn 1 of the assistant.*first '<\|channel>thought"):
        build_rows([talk], large.tokenizer, large, config)
    with pytest.raises(RequestError, match=r"holds reasoning, and data\.reasoning is answer_only"):
        build_rows([replace(talk, history=(("user", "1+1?"), ("assistant", THOUGHT)))], small.tokenizer, small, config)


def test_pairs_hold_the_channel_themselves() -> None:
    template = gemma4()
    pair = PreferencePair(id="p", prompt="1+1?", chosen=THOUGHT, rejected="3")
    chosen, rejected = build_pair_rows([pair], template.tokenizer, template, CONFIG).rows.rows
    assert [template.tokenizer.decode(row.tokens[row.loss_mask == 1].tolist()) for row in (chosen, rejected)] == [
        THOUGHT + "<turn|>", "3<turn|>"]
    for text in ("<|channel>thought\nnever closed", f"{THOUGHT}<channel|>", "a<|channel>b<channel|>c"):
        with pytest.raises(RequestError, match=r"pair p: chosen: its text has control tokens: <"):
            build_pair_rows([replace(pair, chosen=text)], template.tokenizer, template, CONFIG)
    off = gemma4(reasoning="answer_only")
    with pytest.raises(RequestError, match=r"pair p: chosen: its text has control tokens: <\|channel>, <channel\|>"):
        build_pair_rows([pair], off.tokenizer, off, CONFIG.model_copy(update={"reasoning": "answer_only"}))


@pytest.mark.parametrize("mark", MARKS)
def test_the_check_finds_the_marks(mark: str) -> None:
    report = check(ReadFile([(1, replace(TRACE, answer=f"2{mark}", licence="MIT"))], [], 1))
    assert [finding.text for finding in report.findings if finding.kind == "control_text"] == [mark]
