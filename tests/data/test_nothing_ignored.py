"""Nothing that an answer depends on is dropped: columns, tools, system texts, marks that forbid learning, reasoning."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.data.conversations import turns
from tests.data.making import imported, rejection
from tests.models.chat_templates import QWEN, QWEN3, qwen
from workings.cli.main import app
from workings.config.data import DataConfig
from workings.data.preview import turns_of
from workings.data.rows import Row, build_rows
from workings.data.traces import Trace, trace_from_json
from workings.errors import RequestError
from workings.models.chat import ChatTemplate
from workings.scoring.items import item_from_json, refuse_unseen_column

ASKED, SAID = {"role": "user", "content": "What is 1+1?"}, {"role": "assistant", "content": "2"}
WEATHER = {"type": "function", "function": {"name": "weather", "description": "Weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}}}}
CALL = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bern"}'}}]}
TOLD = {"role": "tool", "content": "18 C", "tool_call_id": "c1"}
TOOLS = """{% if tools %}{{ '<|im_start|>system\\n' }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}
{{- '<|im_end|>\\n' }}{% endif %}{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' }}
{{- message.content }}{% for call in message.tool_calls or [] %}{{ '[' + call.function.name + call.function.arguments
| tojson + ']' }}{% endfor %}{{ '<|im_end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""


def rows(template: ChatTemplate, *traces: Trace, learn: str = "last", reasoning: str = "answer_only") -> list[Row]:
    config = DataConfig(traces="x", max_length=600, template="tokenizer", reasoning=reasoning, learn=learn)
    return list(build_rows(traces, template.tokenizer, template, config).rows)


def learned(template: ChatTemplate, row: Row) -> list[str]:
    return [template.tokenizer.decode(row.tokens[start:end].tolist()) for start, end in row.learned_turns]


# --- columns ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("key", ["context", "passage", "choices", "options", "documents", "Context", "article",
                                 "input", "ctx", "retrieved_documents", "chat_history", "option_a", "sentence1", "text",
                                 "system_instruction"])
def test_what_an_answer_depends_on_is_refused_unless_it_is_asked_or_ignored(tmp_path: Path, key: str) -> None:
    record = {"question": "Who wrote it?", key: ["Anna wrote it.", "Ben read it."], "answer": "Anna"}
    assert f"`{key}` looks like what the answer depends on" in rejection(tmp_path, "question-answer", record)
    with pytest.raises(ValueError, match=f"`{key}`"):  # so training, check and preview say the same
        trace_from_json({"id": "a", "prompt": "Who wrote it?", "steps": [], "answer": "Anna", key: record[key]})
    result, [trace] = imported(tmp_path, "question-answer", record, ignore=(key,))
    assert trace.metadata == {"ignored": {key: record[key]}}
    assert result.kept == {}
    asked = {**record, "question": "Anna wrote it.\nBen read it. Who wrote it?"}
    assert imported(tmp_path, "question-answer", asked)[0].written == 1


@pytest.mark.parametrize(("kind", "record", "key"), [
    ("question-answer", {"question": "A fruit?", "A": "stone", "B": "apple", "answer": "B"}, "A"),
    ("question-answer", {"question": "How many rows?", "table": {"rows": ["1"]}, "answer": "1"}, "table"),
    ("question-answer", {"question": "Which is a fruit?", "choices": ["a", "i"], "answer": "2"}, "choices"),
    ("question-answer", {"question": "And now?", "history": [["2+2?", "4"]], "answer": "5"}, "history"),
    ("prompt-completion", {"prompt": "Answer this.", "question": "1+1?", "completion": "2"}, "question"),
    ("prompt-chosen-rejected", {"prompt": "1+1?", "context": "Count.", "chosen": "2", "rejected": "3"}, "context"),
])
def test_a_text_that_is_only_in_the_answer_or_within_a_word_is_not_asked(tmp_path: Path, kind: str,
                                                                         record: dict[str, Any], key: str) -> None:
    assert f"`{key}` looks like what the answer depends on" in rejection(tmp_path, kind, record)


@pytest.mark.parametrize("more", [{"original_question": "One and one?"}, {"num_choices": 4}, {"tool_choice": "auto"},
                                  {"A": "one"}, {"op": "+"}, {"unit_system": "metric"},
                                  {"text": "Q: What is 1+1? A: 2"}, {"context_length": 9},
                                  {"choices": {"text": ["What", "is"], "label": [1, 1]}}, {"label": True}])
def test_harmless_columns_are_kept(tmp_path: Path, more: dict[str, Any]) -> None:
    record = {"question": "What is 1+1?", "answer": "2", **more}
    assert imported(tmp_path, "question-answer", record)[0].written == 1


def test_questions_of_an_evaluation_hold_to_the_same_rule() -> None:
    item = {"id": "a", "prompt": "Which is a fruit?", "expected_answer": "2"}
    with pytest.raises(ValueError, match="`choices` looks like what the answer depends on"):
        refuse_unseen_column({**item, "choices": ["stone", "apple"]})
    refuse_unseen_column({**item, "prompt": "Which is a fruit? 1. stone 2. apple", "choices": ["stone", "apple"]})


def test_any_other_column_is_named_once(tmp_path: Path) -> None:
    records = [{"question": f"{number}+1?", "answer": "2", "source_url": "x"} for number in range(3)]
    result, _ = imported(tmp_path, "question-answer", *records)
    assert list(result.notes()) == ["`source_url` of 3 records is kept and not shown to the model"]


def test_an_ignored_column_that_is_nowhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="--ignore contexts: no record has `contexts`"):
        imported(tmp_path, "question-answer", {"question": "a?", "answer": "b"}, ignore=("contexts",))


@pytest.mark.parametrize("key", ["Complex_CoT", "chain-of-thought", "rationale", "model_reasoning"])
def test_reasoning_of_an_unknown_name_is_asked_about(tmp_path: Path, key: str) -> None:
    record = {"question": "1+1?", "answer": "2", key: "One and one are two."}
    assert f"`{key}` looks like the reasoning" in rejection(tmp_path, "question-answer", record)
    _, [trace] = imported(tmp_path, "question-answer", record, keys={"reasoning": key})
    assert trace.steps == ("One and one are two.",)


@pytest.mark.parametrize("key", ["system", "tools", "tool_defs"])
def test_items_with_what_no_model_would_be_shown_are_refused(key: str) -> None:
    with pytest.raises(ValueError, match=f"`{key}` would not be shown"):
        item_from_json({"id": "a", "prompt": "1+1?", "expected_answer": "2", key: "Be brief."})


# --- tools --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("key", ["tools", "tool_defs", "functions"])
@pytest.mark.parametrize("tools", [[WEATHER], json.dumps([WEATHER])])
def test_tools_reach_the_prompt_or_the_row_is_refused(tmp_path: Path, key: str, tools: object) -> None:
    _, [trace] = imported(tmp_path, "messages", {"messages": [ASKED, SAID], key: tools})
    assert json.loads(trace.tools) == [WEATHER]
    shows = qwen(TOOLS)
    assert "Weather of a city" in shows.tokenizer.decode(rows(shows, trace)[0].tokens.tolist())
    with pytest.raises(RequestError, match="does not show the tools"):
        rows(qwen(QWEN), trace)


def test_calls_and_what_tools_said_are_read_and_calls_are_learned(tmp_path: Path) -> None:
    _, [trace, open_end] = imported(tmp_path, "messages", {"tools": [WEATHER], "messages": [ASKED, CALL, TOLD, SAID]},
                                    {"tools": [WEATHER], "messages": [
                                        ASKED, {**CALL, "tool_calls": json.dumps(CALL["tool_calls"])}]})
    assert (trace.prompt, trace.answer, [turn.role for turn in trace.tool_turns]) == (
        "What is 1+1?", "2", ["assistant", "tool"])
    template, call = qwen(TOOLS), '[weather{"city": "Bern"}]<|im_end|>'
    assert learned(template, rows(template, trace, learn="all")[0]) == [call, "2<|im_end|>"]
    assert learned(template, rows(template, trace)[0]) == ["2<|im_end|>"]
    assert learned(template, rows(template, open_end)[0]) == [call]
    with pytest.raises(RequestError, match="leaves out or changes a call of the tool weather"):
        rows(qwen(TOOLS.replace("message.tool_calls or []", "[]")), trace)


@pytest.mark.parametrize("key", ["tools", "system"])
def test_control_tokens_in_tools_are_refused(key: str) -> None:
    tool = {**WEATHER, "function": {**WEATHER["function"], "description": "<|im_end|>"}}  # type: ignore[dict-item]
    trace = Trace(id="a", prompt="1+1?", steps=(), answer="2", tools=json.dumps([tool]))
    with pytest.raises(RequestError, match="its text has control tokens"):
        rows(qwen(TOOLS), trace)


# --- marks that forbid learning -----------------------------------------------------------------------------------

@pytest.mark.parametrize(("key", "no", "yes"), [("weight", 0, 1), ("train", False, True), ("loss", False, True),
                                                ("trainable", False, True), ("loss_mask", 0, 1), ("weight", 0.0, 1.0)])
def test_a_marked_turn_is_read_and_never_learned(tmp_path: Path, key: str, no: object, yes: object) -> None:
    wrong, right = {"role": "assistant", "content": "5", key: no}, {"role": "assistant", "content": "6", key: yes}
    again = {"role": "user", "content": "Sure?"}
    _, [first, last] = imported(tmp_path, "messages", {"messages": [ASKED, wrong, again, right]},
                                {"messages": [ASKED, right, again, wrong]})
    template = qwen()
    for learn in ("last", "all"):
        for trace in (first, last):
            [row] = rows(template, trace, learn=learn)
            assert learned(template, row) == ["6<|im_end|>"]
    assert [turn.marked for turn in turns_of(first, rows(template, first)[0])] == [False, True, False, False]
    assert last.metadata["turns_not_learned"][1] == {"role": "assistant", "content": "5", "learned": False}
    assert trace_from_json(first.to_json()) == first


def test_keys_of_turns_that_are_not_read_are_named(tmp_path: Path) -> None:
    result, _ = imported(tmp_path, "messages",
                         {"messages": [{**ASKED, "name": "Bob"}, {**SAID, "prefix": True, "refusal": None}]},
                         {"messages": [ASKED, {**SAID, "prefix": True}]})
    assert list(result.notes()) == ["`prefix` of 2 turns is not read", "`name` of 1 turn is not read"]


# --- reasoning and messages ---------------------------------------------------------------------------------------

def test_reasoning_that_is_given_twice_counts_once(tmp_path: Path) -> None:
    for marks in ("<think>{}</think>", "<thinking>{}</thinking>", "[THINK]{}[/THINK]"):
        twice = {**SAID, "content": marks.format("1+1=2") + "2", "reasoning_content": "1+1=2", "thinking": "1+1=2"}
        _, [trace] = imported(tmp_path, "messages", {"messages": [ASKED, twice]})
        assert (trace.steps, trace.answer) == (("1+1=2",), "2")
    for other in ({**twice, "reasoning_content": "1+1=3"}, {**twice, "thinking": "hm"}):
        assert "two different reasonings in turn 2" in rejection(tmp_path, "messages", {"messages": [ASKED, other]})
    for kind, record in (("prompt-completion", {"prompt": "1+1?", "completion": "<think>1+1=2</think>2"}),
                         ("traces", {"prompt": "1+1?", "steps": ["1+1=2"], "answer": "<think>1+1=2</think>2"})):
        _, [trace] = imported(tmp_path, kind, {**record, "reasoning": "1+1=2"})
        assert (trace.steps, trace.answer) == (("1+1=2",), "2")
        other = {**record, "steps": ["no"]} if "steps" in record else {**record, "reasoning": "no"}
        assert "two different reasonings in the record" in rejection(tmp_path, kind, other)
    with pytest.raises(RequestError, match="trace a has <think> in its text and steps too"):
        rows(qwen(QWEN3, "think"), Trace(id="a", prompt="1?", steps=("x",), answer="<think>x</think>2"),
             reasoning="think")


@pytest.mark.parametrize(("record", "said"), [
    ({"messages": []}, "`messages` is empty"), ({"messages": None}, "`messages` is null"),
    ({"messages": [ASKED, {**SAID, "content": None}]}, "`content` is null in turn 2 of `messages`"),
    ({"messages": [{**ASKED, "role": "hummany"}, SAID]}, "an unknown role 'hummany'"),
    ({"messages": [ASKED, CALL, ASKED, SAID]}, "whose answer must follow, not turn 3 of `messages` (user)"),
    ({"messages": [{"role": "system", "content": "a"}] * 2 + [ASKED, SAID]}, "out of order is turn 2 of"),
    ({"messages": [ASKED, {**CALL, "tool_calls": "weather()"}]}, "`tool_calls` is a text that is not JSON in turn 2"),
    ({"messages": [ASKED, {**CALL, "tool_calls": 3}]}, "`tool_calls` must be a list of calls, not a number"),
    ({"messages": [{**ASKED, "functions": [WEATHER]}, SAID]}, "`functions` of turn 1 of `messages` looks like"),
    ({"messages": [{**ASKED, "context": "Add."}, SAID]}, "`context` of turn 1 of `messages` looks like"),
    ({"messages": [ASKED, {**SAID, "function_calls": "add(1, 1)"}]}, "is read from `tool_calls`, but the model"),
    ({"messages": [ASKED, {**SAID, "thoughts": "one and one"}]}, "is read from `reasoning_content`, but the model"),
    ({"messages": [ASKED, SAID, ASKED, SAID], "weights": [0.0, 1.0]}, "`weights: [0.0, 1.0]`, a list; each turn"),
    ({"messages": [ASKED, {**SAID, "weight": 0}]}, "every turn of the assistant is marked as not to be learned"),
    ({"messages": [ASKED, {**SAID, "weight": 0.5}]}, "turn 2 of `messages` is marked `weight: 0.5`; only 0 and 1"),
    ({"messages": [ASKED, {**SAID, "weight": 0, "train": True}]}, "marks that contradict each other"),
    ({"messages": [{**ASKED, "train": True}, SAID]}, "turn 1 of `messages` (user) is marked as learned"),
    ({"messages": [ASKED, SAID], "weight": 0}, "the record is marked `weight: 0`"),
    ({"messages": [ASKED, SAID], "exclude": True}, "the record is marked `exclude: True`"),
    ({"messages": [ASKED, SAID], "label": False}, "the record is marked `label: False`, so its completion is no good"),
    ({"messages": [ASKED, {**SAID, "train_on_turn": False}]}, "turn 2 of `messages` is marked `train_on_turn: False`"),
    ({"messages": [ASKED, {**SAID, "weight": "0"}]}, "every turn of the assistant is marked as not to be learned"),
    ({"messages": [ASKED, SAID], "loss_mask": [0, 1]}, "marked `loss_mask: [0, 1]`, a list; each turn needs its own"),
    ({"messages": [ASKED, {**SAID, "train_detail": [{"begin_offset": 0}]}]}, "marked `train_detail"),
])
def test_one_cause_one_sentence(tmp_path: Path, record: dict[str, Any], said: str) -> None:
    assert said in rejection(tmp_path, "messages", record)


@pytest.mark.parametrize(("record", "said"), [
    ({"prompt": None, "completion": "2"}, "`prompt` is null"),
    ({"question": "Even?", "answer": True}, "not true or false"),
    ({"prompt": "1+1?", "chosen": None, "rejected": "3"}, "`chosen` is null"),
    ({"Question": "1+1?", "Answer": "2"}, "--map question=Question,answer=Answer"),
    ({"prompt": "1+1?", "completion": "2", "label": None}, "`label` is null")])
def test_without_a_format_the_cause_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: dict[str, Any],
                                             said: str) -> None:
    monkeypatch.chdir(tmp_path)
    good = [{"prompt": "1+1?", "completion": "2", "label": True}] if "label" in record else []
    Path("rows.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in [record, *good]))
    with pytest.raises(RequestError) as caught:
        CliRunner().invoke(app, ["data", "import", "rows.jsonl"], catch_exceptions=False)
    assert said in f"{caught.value.given} {caught.value.try_next}"


def test_the_command_names_format_and_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("talks.jsonl").write_text(json.dumps({"messages": []}) + "\n" + json.dumps({"messages": [ASKED, SAID]}) + "\n")
    done = CliRunner().invoke(app, ["data", "import", "talks.jsonl", "--on-error", "skip"], catch_exceptions=False)
    assert "the first record looks like format messages" in done.stderr
    assert "1 written to talks.traces.jsonl" in done.stdout
    assert Path("talks.traces.jsonl").is_file()


# --- chat templates that drop, change or double text --------------------------------------------------------------

TALK = Trace(id="t", prompt="What is 2+2?", steps=("2+2=4",), answer="4",
             history=turns(("system", "Be short."), ("user", "What is 1+1?"), ("assistant", "2")))
PLAIN = QWEN.replace("{% if messages[0].role != 'system' %}{{ '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}"
                     "{% endif %}\n{%- for", "{% for")


@pytest.mark.parametrize(("changed", "said"), [
    (PLAIN.replace("in messages %}", "in messages if message.role != 'system' %}"), "turn 1 (system): 'Be short.'"),
    (PLAIN.replace("in messages %}", "in messages if not loop or true %}{% if loop.index != 2 %}", 1).replace(
        "{{ '\\n' }}{% endfor %}", "{{ '\\n' }}{% endif %}{% endfor %}"), "turn 2 (user): 'What is 1+1?'"),
    (PLAIN.replace("{%- else %}{{ message.content", "{%- else %}{{ message.content | lower"), "turn 1 (system)"),
    (PLAIN.replace("{%- else %}{{ message.content", "{%- else %}{{ message.content[:6]"), "turn 1 (system)"),
    (PLAIN.replace("{{ message.content + '<|im_end|>' }}{% endgeneration %}",
                   "{{ message.content + message.content + '<|im_end|>' }}{% endgeneration %}"), "before the answer"),
    (PLAIN.replace("{{ message.content + '<|im_end|>' }}{% endgeneration %}",
                   "{{ message.content + ' Bye.' + '<|im_end|>' }}{% endgeneration %}"), "after the answer"),
])
def test_a_template_that_leaves_out_changes_or_adds_text_is_refused(changed: str, said: str) -> None:
    assert changed != PLAIN
    with pytest.raises(RequestError) as caught:
        rows(qwen(changed), TALK)
    assert said in caught.value.given
    assert rows(qwen(PLAIN), TALK)


def test_a_second_block_of_thinking_is_refused() -> None:
    doubled = QWEN3.replace("and '<think>' not in message.content ", "")
    with pytest.raises(RequestError, match="a second block of thinking"):
        rows(qwen(doubled, "think"), TALK, reasoning="think")


def test_a_template_without_a_generation_prompt_gets_a_note() -> None:
    lacks = PLAIN.replace("{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}", "")
    assert "has no generation prompt: '<|im_start|>assistant\\n' is learned" in qwen(lacks).note
    assert qwen(PLAIN).note == ""
