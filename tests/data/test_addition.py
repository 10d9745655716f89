"""Additions: right arithmetic, a split without leaks, the same data for the same seed."""

import hashlib
import json
import re
from collections import Counter

import pytest

from workings.data.generators import addition
from workings.data.generators.base import items_bytes, write_items
from workings.data.manifest import prompts_in_both, write_manifest
from workings.data.traces import traces_bytes, write_traces
from workings.errors import RequestError
from workings.record.digest import file_digest


def test_every_step_is_right_and_leads_to_the_answer() -> None:
    traces, items = addition.make(6000, 512, seed=3)
    assert (len(traces), len(items)) == (6000, 512)
    for trace in traces:
        a, b = map(int, re.fullmatch(r"What is (\d\d)\+(\d\d)\?", trace.prompt).groups())
        ones, tens = trace.steps
        x, y, total, digit, carry = map(int, re.fullmatch(r"(\d)\+(\d)=(\d+), write (\d) carry (\d)", ones).groups())
        assert (x, y) == (a % 10, b % 10)
        assert x + y == total == 10 * carry + digit
        p, q, carried, upper = map(int, re.fullmatch(r"(\d)\+(\d)\+(\d)=(\d+)", tens).groups())
        assert (p, q, carried) == (a // 10, b // 10, carry)
        assert p + q + carried == upper
        assert int(trace.answer) == a + b == 10 * upper + digit
    for item in items:
        assert eval(item.prompt[8:-1]) == int(item.expected_answer)


def test_known_problem_by_hand() -> None:
    assert addition.worked_steps(47, 25) == ("7+5=12, write 2 carry 1", "4+2+1=7")
    assert addition.labels(47, 25) == {"section": "core", "category": "carry_from_ones", "difficulty": "medium"}
    assert addition.labels(98, 87) == {"section": "trace_sensitive", "category": "two_carries", "difficulty": "hard"}
    assert addition.labels(40, 25) == {"section": "edge_case", "category": "no_carry", "difficulty": "easy"}
    assert addition.labels(62, 51) == {"section": "edge_case", "category": "carry_from_tens", "difficulty": "medium"}
    assert addition.labels(21, 34)["section"] == "core"


def test_no_item_was_trained_in_either_order() -> None:
    traces, items = addition.make(7000, 512, seed=0)
    pair = re.compile(r"(\d\d)\+(\d\d)")
    trained = {frozenset(pair.search(trace.prompt).groups()) for trace in traces}
    asked = [frozenset(pair.search(item.prompt).groups()) for item in items]
    assert len(set(asked)) == len(asked) == 512
    assert not trained & set(asked)
    assert prompts_in_both([vars(trace) for trace in traces], [vars(item) for item in items]) == 0
    assert prompts_in_both([{"prompt": "What IS  1+1?"}, {"prompt": "x"}], [{"prompt": "what is 1+1?"}]) == 1


def test_all_sections_are_large_enough_to_report() -> None:
    _, items = addition.make(6000, 512, seed=0)
    for section in ("core", "trace_sensitive", "edge_case"):
        assert sum(item.section == section for item in items) >= 100


def test_the_seed_names_the_data_for_good() -> None:
    traces, items = addition.make(50, 10, seed=0)
    digest = hashlib.sha256(traces_bytes(traces) + items_bytes(items)).hexdigest()
    assert digest == "d91f46baa9993b60a09c72b34f16a1c8fa6ad04490766ab3ebe86916ed909fde"
    assert addition.make(50, 10, seed=1)[0] != traces


@pytest.mark.parametrize(("n_train", "n_items"), [(8100, 500), (0, 10), (10, 0), (10, 4095)])
def test_more_than_there_is_is_refused(n_train: int, n_items: int) -> None:
    with pytest.raises(RequestError, match="8,100 additions"):
        addition.make(n_train, n_items, seed=0)


def test_held_out_traces_are_the_items_with_steps() -> None:
    _, items = addition.make(10, 20, seed=5)
    held_out = addition.held_out_traces(items, seed=5)
    assert [(trace.id, trace.prompt, trace.answer) for trace in held_out] == [
        (item.id, item.prompt, item.expected_answer) for item in items]
    assert all(len(trace.steps) == 2 for trace in held_out)


def test_manifest_holds_the_files_digests(tmp_path) -> None:
    traces, items = addition.make(40, 20, seed=5)
    (tmp_path / "new" / "tokenizer").mkdir(parents=True)
    (tmp_path / "new" / "tokenizer" / "tokenizer.json").write_text("{}")
    write_traces(tmp_path / "new" / "traces.jsonl", traces)
    write_items(tmp_path / "new" / "items.jsonl", items)
    manifest = write_manifest(tmp_path / "new", generator="addition", seed=5)
    assert json.loads((tmp_path / "new" / "manifest.json").read_text()) == manifest
    assert manifest["made_by"] == {"generator": "addition", "seed": 5}
    assert set(manifest["files"]) == {"traces.jsonl", "items.jsonl", "tokenizer/tokenizer.json"}
    for name, facts in manifest["files"].items():
        assert facts["sha256"] == file_digest(tmp_path / "new" / name)
    for name, count in (("traces.jsonl", 40), ("items.jsonl", 20)):
        assert sum(manifest["files"][name]["counts"]["section"].values()) == count
        assert manifest["files"][name]["records"] == count
    assert manifest["split"] == {"prompts_in_both": 0}


def test_a_few_hundred_traces_show_every_column_twice() -> None:
    traces, _ = addition.make(400, 600, seed=17)
    shown = Counter(re.sub(r",.*", "", step) for trace in traces for step in trace.steps)
    ones = {f"{x}+{y}={x + y}" for x in range(10) for y in range(10)}
    tens = {f"{x}+{y}+{c}={x + y + c}" for x in range(1, 10) for y in range(1, 10) for c in (0, 1)}
    assert ones | tens == set(shown)
    assert min(shown.values()) >= 2
