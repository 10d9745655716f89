"""Gemma 4's thinking: prompts and completions against texts written by hand, refusals, the switch in the template."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.models.chat_templates import QWEN3, parts, tokenizer
from tests.models.thinking_templates import CASES, MARKS, SMALL, TRACE, gemma4
from workings.config.data import DataConfig
from workings.data.rows import build_rows
from workings.errors import RequestError
from workings.models.chat import ChatTemplate

PROMPT = "<bos><|turn>system\n<|think|>\n<turn|>\n<|turn>user\nWhat is 1+1?<turn|>\n<|turn>model\n"
LEARNED = "<|channel>thought\n1+1=2\nso it is 2\n<channel|>2<turn|>"


@pytest.mark.parametrize("case", CASES)
def test_the_system_turn_asks_for_the_channel_and_the_model_writes_it(case: str) -> None:
    template = gemma4(case)
    assert parts(template, TRACE) == (PROMPT, LEARNED)
    config = DataConfig(traces="x", max_length=200, template=template.name, reasoning="channel")
    row = build_rows([TRACE], template.tokenizer, template, config).rows[0]
    masks = {token: row.loss_mask[row.tokens == template.tokenizer.token_id(token)].tolist() for token in MARKS}
    # Three turns begin and two of them end in the prompt; the third end is the stop token.
    assert masks == {"<|turn>": [0, 0, 0], "<turn|>": [0, 0, 1], "<|think|>": [0], "<|channel>": [1], "<channel|>": [1]}


@pytest.mark.parametrize("case", CASES)
def test_a_system_turn_is_merged_and_earlier_thoughts_are_dropped(case: str) -> None:
    earlier = (("system", " Be short. "), ("user", "1+1?"), ("assistant", "<|channel>thought\nhm\n<channel|>2"))
    trace = replace(TRACE, prompt="And 2+2?", answer="4", history=earlier)
    assert parts(gemma4(case), trace) == (
        "<bos><|turn>system\n<|think|>\nBe short.<turn|>\n<|turn>user\n1+1?<turn|>\n<|turn>model\n2<turn|>\n"
        "<|turn>user\nAnd 2+2?<turn|>\n<|turn>model\n", LEARNED.replace("|>2<", "|>4<"))


@pytest.mark.parametrize(("case", "end"), [("gemma4", ""), ("small", ""),
                                           ("large", "<|channel>thought\n<channel|>")])
def test_without_thinking_the_larger_models_are_asked_with_an_empty_channel_that_is_not_learned(
        case: str, end: str) -> None:
    template = gemma4(case, "answer_only")
    assert parts(template, TRACE, "answer_only") == (
        f"<bos><|turn>user\nWhat is 1+1?<turn|>\n<|turn>model\n{end}", "2<turn|>")
    assert parts(gemma4(case, "hashes"), TRACE, "hashes")[1] == "1+1=2\nso it is 2\n#### 2<turn|>"


@pytest.mark.parametrize("case", CASES)
def test_who_uses_an_exported_model_can_switch_thinking_off(case: str) -> None:
    # An export holds the template's source; transformers passes `enable_thinking` as a variable.
    off = replace(gemma4(case), source="{% set enable_thinking = false %}" + gemma4(case).source)
    assert off.prompt_text("1?") == gemma4(case, "answer_only").prompt_text("1?")
    assert "<|think|>" in gemma4(case).prompt_text("1?")


@pytest.mark.parametrize(("name", "source", "marks", "reason"), [
    ("gemma", "", MARKS, "channel does not fit data.template: gemma"),
    ("plain", "", MARKS, "channel does not fit data.template: plain"),
    ("gemma4", "", MARKS[:3], r"lacks the control tokens <\|channel>, <channel\|>"),
    ("gemma4", "", (*MARKS[:2], *MARKS[3:]), r"lacks the control tokens <\|think\|>"),
    ("tokenizer", QWEN3, (*MARKS, "<|im_start|>", "<|im_end|>"), r"chat template does not write <\|think\|>"),
    ("tokenizer", "{{ '<|think|>' }}" + SMALL, MARKS, r"chat template does not write <\|think\|>"),
])
def test_other_models_are_refused(name: str, source: str, marks: tuple[str, ...], reason: str) -> None:
    tokens = tokenizer(marks, bos_token="<bos>", eos_token="<eos>", chat_template=source)
    with pytest.raises(RequestError, match=reason):
        ChatTemplate.for_config(name, tokens, "channel")
    assert not ChatTemplate.for_config(name, tokens, "think").thinking


def test_a_template_for_another_form_is_refused() -> None:
    for form, other in (("channel", "tags"), ("tags", "channel")):
        template = gemma4(reasoning=form)
        config = DataConfig(traces="x", max_length=200, template="gemma4", reasoning=other)
        with pytest.raises(RequestError, match=f"data.reasoning is {other}, but the chat template has Gemma 4's"):
            build_rows([TRACE], template.tokenizer, template, config)


@pytest.mark.parametrize(("written", "forges"), [
    ("<|channel>thought\na\n<channel|>2", False), ("2", False), ("<|channel>thought\na", True),
    ("a<|channel>thought\na\n<channel|>2", True), ("<|channel>a<|channel>b<channel|>2", True), ("<channel|>2", True),
    ("<|channel>thought\na\n<channel|>2<|think|>", True), ("2<turn|>", True)])
def test_a_model_may_write_the_marks_of_its_channel_only(written: str, forges: bool) -> None:
    template = gemma4()
    ids = template.tokenizer.encode(written)
    assert template.forges_turns(ids) is forges
    # Without thinking the channel is a control token like any other.
    assert gemma4(reasoning="answer_only").forges_turns(ids) is (written != "2")


@pytest.mark.parametrize("system", ["", " Be short. "])
@pytest.mark.parametrize("name", ["gemma4", "tokenizer"])
def test_token_by_token_what_the_published_template_gives(name: str, system: str) -> None:
    # TRL carries Google's template of 2026-07-09 (E2B and E4B) in a file; nothing of TRL is imported.
    found = find_spec("trl")
    published = Path(str(found.origin)).with_name("chat_templates") / "gemma4_v5.jinja" if found else None
    if published is None or not published.is_file():
        pytest.skip("trl is not installed, or too old to have Gemma 4's template")
    transformers = pytest.importorskip("transformers")
    tokens = tokenizer(MARKS, bos_token="<bos>", eos_token="<eos>", chat_template=published.read_text("utf-8"))
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_object=tokens.backend, bos_token="<bos>",
                                                  chat_template=tokens.chat_template)
    trace = replace(TRACE, history=((("system", system),) if system else ()) + (
        ("user", "1+1?"), ("assistant", "<|channel>thought\nhm\n<channel|>2")))
    said = [*(turn.message() for turn in trace.history), {"role": "user", "content": trace.prompt}]
    answer = {"role": "assistant", "reasoning": "\n".join(trace.steps), "content": trace.answer}
    for reasoning, options in (("channel", {"enable_thinking": True}), ("answer_only", {})):
        template = ChatTemplate.for_config(name, tokens, reasoning)
        config = DataConfig(traces="x", max_length=200, template=name, reasoning=reasoning)
        row = build_rows([trace], tokens, template, config).rows[0]
        asked = theirs.apply_chat_template(said, add_generation_prompt=True, return_dict=False, **options)
        assert row.tokens[row.loss_mask == 0].tolist() == asked
        last = answer if options else {"role": "assistant", "content": trace.answer}
        whole = theirs.apply_chat_template([*said, last], return_dict=False, **options)
        # Their text continues with the line break after the stop token, which is never generated.
        assert [*row.tokens.tolist(), *tokens.encode("\n")] == whole
