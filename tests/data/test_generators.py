"""Made data sets: every step is right, nothing is asked that was shown, the same data for the same name or seed."""

import re
from pathlib import Path

import pytest

from workings.data import generate, named_sets
from workings.data.equations.check import find_equations
from workings.data.generators import addition, everyday
from workings.data.generators.everyday import UNITS, make_facts, make_units
from workings.data.traces import items_bytes, traces_bytes
from workings.errors import RecordError, RequestError
from workings.record.digest import bytes_digest


@pytest.mark.parametrize("name", ["folder", "traces.jsonl"])
def test_a_set_that_is_cut_off_between_two_files_leaves_none(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                                             ) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("workings.record.atomic.write_json", interrupted)  # the manifest, which is written last
    with pytest.raises(KeyboardInterrupt):
        generate.make_files("addition", 2, 1, 0, tmp_path / name, force=False)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_shipped_names_mean_their_digest_and_nothing_is_asked_that_was_shown() -> None:
    shipped = named_sets.make_set("dev-reasoning"), named_sets.make_set("eval")
    assert tuple(map(len, shipped)) == (550, 100)
    for traces, items in (shipped, make_units(610, 200, 17), make_facts(50, 17)):
        shown, asked = {trace.prompt for trace in traces}, {item.prompt for item in items}
        assert (len(shown), len(asked)) == (len(traces), len(items))
        assert not shown & asked


def test_a_changed_generator_cannot_change_a_name_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(everyday, "VERSION", 99)
    with pytest.raises(RecordError, match="makes other data"):
        named_sets.make_set("eval")


def test_unknown_names_are_refused() -> None:
    with pytest.raises(RequestError, match="addition, unit_conversion"):
        named_sets.make_kind("evil", 1, 1, 0)


def test_tasks_of_reasoning_gym() -> None:
    pytest.importorskip("reasoning_gym", reason="needs the extra `tasks`")
    traces, items = named_sets.make_kind("chain_sum", 20, 5, seed=1)
    assert (len(traces), len(items)) == (20, 5)
    for one in (*traces, *items):
        assert eval(one.prompt.partition(":")[2].strip().rstrip(" =.")) == int(one.answer)
    assert len({one.prompt for one in (*traces, *items)}) == 25
    assert named_sets.make_kind("chain_sum", 20, 5, seed=1) == (traces, items)
    assert named_sets.make_kind("gsm_symbolic", 1, 0, seed=1)[0][0].steps
    with pytest.raises(RequestError, match="different problems"):
        named_sets.make_kind("coin_flip", 5000, 5, seed=1)
    with pytest.raises(RequestError, match="at least one"):
        named_sets.make_kind("chain_sum", 0, 0, seed=1)


@pytest.mark.parametrize("make", [addition.make, make_units])
def test_every_step_is_right_and_leads_to_the_answer(make) -> None:
    traces = [trace for half in make(600, 200, 17) for trace in half]
    for trace in traces:
        equations = [one for step in trace.steps for one in find_equations(step)]
        assert {one.verdict for one in equations} == {"right"}
        assert len(equations) == len(trace.steps)
    if make is addition.make:
        assert all(eval(trace.prompt[8:-1]) == int(trace.answer) for trace in traces)
    else:
        assert all(trace.steps[-1].endswith(f"={trace.answer} {trace.category}") for trace in traces)
        assert {trace.category for trace in traces} == {unit for _, unit in UNITS.values()}


@pytest.mark.parametrize(("make", "numbers", "digest"), [
    (addition.make, (50, 10, 0), "d91f46baa9993b60a09c72b34f16a1c8fa6ad04490766ab3ebe86916ed909fde"),
    (make_units, (300, 200, 17), "fbd0e3d760bd842470c54b3c35db83d707a509e46554a3cebdd319a1cf63bfb0"),
    (make_facts, (50, 17), "9bb9300e3bd5e4ce629766a9997bca772d46f7fa148ec920c675d5db22f9985e")])
def test_a_seed_names_the_same_data_for_good(make, numbers, digest) -> None:
    traces, items = make(*numbers)
    assert bytes_digest(traces_bytes(traces) + items_bytes(items)) == digest
    assert make(*numbers[:-1], 18)[0] != traces


# --- additions: right arithmetic, a split without leaks ------------------------------------------------------------

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


@pytest.mark.parametrize(("n_train", "n_items"), [(8100, 500), (0, 10), (10, 0), (10, 4095)])
def test_more_than_there_is_is_refused(n_train: int, n_items: int) -> None:
    with pytest.raises(RequestError, match="8,100 additions"):
        addition.make(n_train, n_items, seed=0)
