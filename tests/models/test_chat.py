"""Chat templates against texts written by hand, masks by prefix, and templates that must be refused."""

import pytest

from tests.models.chat_templates import (
    CASES,
    LLAMA,
    QWEN,
    QWEN3,
    QWEN3_5,
    QWEN3_5_SMALL,
    R1,
    TRACE,
    gemma,
    llama,
    parts,
    qwen,
    tokenizer,
)
from workings.data.traces import Trace
from workings.errors import RequestError
from workings.models.chat import ChatTemplate

STYLES = {
    "tags": "<reasoning>1+1=2</reasoning><answer>2</answer>",
    "think": "<think>\n1+1=2\n</think>\n\n2",
    "hashes": "1+1=2\n#### 2",
    "answer_only": "2",
}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("case", CASES)
def test_rows_are_what_the_model_publishes_and_only_the_answer_is_learned(case: str, style: str) -> None:
    make, prompt, stop, stops = CASES[case]
    template = make()
    assert parts(template, TRACE, style) == (prompt, STYLES[style] + stop)
    assert [template.tokenizer.token(token) for token in template.stop_ids] == stops
    ids = template.prompt_ids("What is 1+1?")
    if case == "qwen":
        assert template.bos_id is None
    else:
        assert ids[0] == template.bos_id
        assert ids.count(template.bos_id) == 1


def test_earlier_turns_and_a_system_turn_are_written_and_masked() -> None:
    template = gemma()
    with pytest.raises(RequestError, match="roles must alternate"):
        template.prompt_text("2?", (("user", "1?"),))
    history = (("system", "Be short."), ("user", "1+1?"), ("assistant", "2"))
    assert template.prompt_text("And 2+2?", history) == (
        "<bos><start_of_turn>user\nBe short.\n\n1+1?<end_of_turn>\n<start_of_turn>model\n2<end_of_turn>\n"
        "<start_of_turn>user\nAnd 2+2?<end_of_turn>\n<start_of_turn>model\n")
    trace = Trace(id="t", prompt="And 2+2?", steps=(), answer="4", history=history)
    assert parts(template, trace, "answer_only")[1] == "4<end_of_turn>"


def test_text_that_the_template_writes_before_the_answer_is_learned() -> None:
    template = qwen(QWEN3)
    assert template.completion_text("1+1?", "2") == "<think>\n\n</think>\n\n2<|im_end|>"
    assert template.completion_text("1+1?", STYLES["think"]) == STYLES["think"] + "<|im_end|>"


@pytest.mark.parametrize("source", [QWEN3_5, QWEN3_5_SMALL], ids=["4B", "2B"])
def test_thoughts_of_qwen_3_5_are_learned_behind_the_tag_that_ends_its_prompt(source: str) -> None:
    """The small models are asked not to think unless they are told to; `data.reasoning: think` tells them."""
    template = qwen(source, "think")
    asked = "<|im_start|>user\nWhat is 1+1?<|im_end|>\n<|im_start|>assistant\n"
    assert template.prompt_text("What is 1+1?") == asked + "<think>\n"
    assert parts(template, TRACE, "think") == (asked + "<think>\n", "1+1=2\n</think>\n\n2<|im_end|>")
    # What is not thought is answered after an empty block, which the small models' prompts end with.
    other = qwen(source, "answer_only")
    prompt, answer = other.prompt_text("What is 1+1?"), other.completion_text("What is 1+1?", "2")
    assert prompt + answer == asked + "<think>\n\n</think>\n\n2<|im_end|>"
    assert (answer == "2<|im_end|>") == (source == QWEN3_5_SMALL)


def test_a_prompt_that_opens_the_thinking_itself() -> None:
    template = ChatTemplate.for_config("tokenizer", tokenizer(
        ("<|User|>", "<|Assistant|>"), bos_token="<bos>", eos_token="<eos>", chat_template=R1))
    assert template.prompt_text("1+1?") == "<bos><|User|>1+1?<|Assistant|><think>\n"
    assert parts(template, TRACE, "think")[1] == "1+1=2\n</think>\n\n2<eos>"
    with pytest.raises(RequestError, match="opens or rewrites the answer"):
        template.completion_text("1+1?", STYLES["tags"])


def test_a_bos_that_the_tokenizer_is_told_to_add() -> None:
    without = LLAMA.replace("(bos_token if loop.first else '') + ", "")
    assert llama(chat_template=without).bos_id is None
    told = llama(chat_template=without, add_bos_token=True)
    assert told.prompt_ids("1?")[0] == told.bos_id == told.tokenizer.token_id("<|begin_of_text|>")


def test_a_bos_that_opens_every_turn_is_a_turn_mark() -> None:
    template = ChatTemplate.for_config("tokenizer", tokenizer(
        ("<|im_start|>", "<|im_end|>"), bos_token="<|im_start|>", eos_token="<|im_end|>", chat_template=QWEN))
    assert template.bos_id is None
    assert parts(template, TRACE, "tags")[1] == STYLES["tags"] + "<|im_end|>"


def test_a_second_bos_is_an_error() -> None:
    template = llama(chat_template="{{ bos_token }}" + LLAMA)
    with pytest.raises(RequestError, match="trace one: the prompt has 2 BOS tokens"):
        parts(template, TRACE, "tags")


@pytest.mark.parametrize(("source", "reason"), [
    ("{{ bos_token }}{% for", "cannot be read"),
    ("{{ raise_exception('not today') }}", "not today"),
    ("{{ messages[0].content.missing.deeper }}", "it fails"),
    ("{% for m in messages %}{{ m.content }}{% endfor %}", "no control token follows the answer"),
    ("{% for m in messages %}{{ m.content | upper }}<eos>{% endfor %}", "rewrites"),
    ("{% for m in messages %}{{ m.content }}<eos>{% endfor %}{% if add_generation_prompt %}A:{% endif %}",
     "does not begin with the prompt alone"),
])
def test_templates_that_cannot_be_trained_are_refused(source: str, reason: str) -> None:
    template = ChatTemplate.for_config("tokenizer", tokenizer(bos_token="<bos>", eos_token="<eos>",
                                                              chat_template=source))
    with pytest.raises(RequestError, match=reason):
        template.completion_text("x?", "the answer")


@pytest.mark.parametrize("source", [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ messages.__init__.__globals__ }}",
    "{{ messages.append(1) }}",
    "{{ cycler.__init__.__globals__.os.popen('true').read() }}",
    "{{ strftime_now('%d') }}",
    "{% for a in range(99999999) %}{% endfor %}",
])
def test_templates_run_in_a_sandbox(source: str) -> None:
    template = ChatTemplate.for_config("tokenizer", tokenizer(eos_token="<eos>", chat_template=source))
    with pytest.raises(RequestError, match="it fails"):
        template.prompt_text("x")


def test_what_a_template_needs_is_asked_for() -> None:
    bare = tokenizer(("x",), eos_token="<eos>")
    with pytest.raises(RequestError, match="no chat template"):
        ChatTemplate.for_config("tokenizer", bare)
    with pytest.raises(RequestError, match=r"the tokenizer does not know .* of data.template: gemma4"):
        ChatTemplate.for_config("gemma4", bare)
    with pytest.raises(RequestError, match="does not know BOS"):
        ChatTemplate.for_config("gemma", bare)
    with pytest.raises(RequestError, match="no end-of-text token"):
        ChatTemplate.for_config("plain", tokenizer(("x",), bos_token="<bos>"))
    with pytest.raises(RequestError, match="gemma or gemma4 or plain"):
        ChatTemplate.for_config("chatml", bare)
