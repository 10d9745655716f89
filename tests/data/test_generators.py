"""All kinds of generated problems: right, split by template and problem, the same for the same seed."""

import json
import re
from pathlib import Path

import pytest

from workings.data import generate, named_sets
from workings.data.equations.check import find_equations
from workings.data.generators import mixed
from workings.data.generators.base import Kind, Problem, items_bytes
from workings.data.traces import trace_from_json, traces_bytes
from workings.errors import RecordError, RequestError
from workings.record.digest import bytes_digest

ALL = list(mixed.KINDS)
SECTIONS, LEVELS = {"core", "trace_sensitive", "edge_case"}, {"easy", "medium", "hard"}


@pytest.fixture(scope="module")
def made():
    return mixed.make(ALL, 900, 300, seed=3)


def test_every_equation_holds_when_python_computes_it(made) -> None:
    traces, _ = made
    looked_at = 0
    for trace in traces:
        for step in trace.steps:
            for left, right in re.findall(r"([-\d(][-+*/()\d]*)=(-?\d+)(?![\d.])", step):
                assert eval(left) == int(right), (trace.id, step)
                looked_at += 1
    assert looked_at > 2000
    assert sum(len(find_equations(step)) for trace in traces for step in trace.steps) >= looked_at


def test_the_answer_follows_from_the_last_steps(made) -> None:
    traces, _ = made
    for trace in traces:
        for number in re.findall(r"\d+", trace.answer):
            assert number in " ".join(trace.steps), trace


def test_labels_are_complete(made) -> None:
    traces, items = made
    for record in [*traces, *items]:
        assert record.section in SECTIONS
        assert record.difficulty in LEVELS
        assert record.category.split("/")[0] in ALL
    assert {trace.section for trace in traces} == {item.section for item in items} == SECTIONS
    for kind in ALL:
        assert sum(trace.category.startswith(kind + "/") for trace in traces) == 150


def test_no_template_and_no_problem_is_on_both_sides(made) -> None:
    traces, items = made
    blank = re.compile(r"-?\d+(\.\d+)?|\b[A-Z][a-z]+\b")
    trained = {blank.sub("_", trace.prompt) for trace in traces}
    assert not trained & {blank.sub("_", item.prompt) for item in items}
    # operands of plain calculations, whatever the words: 47*8 is never trained when "Multiply 47 by 8" is asked
    numbers = {(trace.category, tuple(sorted(re.findall(r"\d+", trace.prompt)))) for trace in traces
               if trace.category.startswith("arithmetic/")}
    asked = {(item.category, tuple(sorted(re.findall(r"\d+", item.prompt)))) for item in items
             if item.category.startswith("arithmetic/")}
    assert asked
    assert not numbers & asked


def test_prompts_are_unique_and_traces_can_be_read_back(made) -> None:
    traces, items = made
    assert len({trace.prompt for trace in traces}) == len(traces)
    assert len({item.prompt for item in items}) == len(items)
    assert [trace_from_json(json.loads(line)) for line in traces_bytes(traces).splitlines()] == traces


def test_more_traces_do_not_change_the_first_ones() -> None:
    few, _ = mixed.make(["geometry", "comparison"], 20, 5, seed=1)
    many, _ = mixed.make(["geometry", "comparison"], 60, 9, seed=1)
    assert many[:20] == few
    assert mixed.make(["geometry", "comparison"], 20, 5, seed=2)[0] != few


@pytest.mark.parametrize(("kinds", "n", "reason"), [
    ([], 5, "kinds: none"), (["algebra"], 5, "kinds: algebra"), (["geometry", "geometry"], 5, "each once"),
    (["geometry"], 0, "at least one of either"), (["geometry"], -1, "at least one of either"),
    pytest.param(["number_patterns"], 5000, "gives hardly anything new", marks=pytest.mark.full),
])
def test_what_cannot_be_made_is_refused(kinds: list[str], n: int, reason: str) -> None:
    with pytest.raises(RequestError, match=reason):
        mixed.make(kinds, n, 0, seed=0)


def test_a_wrong_template_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(draw) -> Problem:
        return Problem(prompt=f"{draw.integer(0, 10**9)}?", steps=("2+2=5",), answer="5", key=(draw.integer(0, 10**9),),
                       category="x")

    monkeypatch.setitem(mixed.KINDS, "wrong", Kind(name="wrong", trained=(wrong,), asked=(wrong,)))
    with pytest.raises(AssertionError, match=r"2\+2=5"):
        mixed.make(["wrong"], 1, 0, seed=0)


@pytest.mark.parametrize("name", ["folder", "traces.jsonl"])
def test_a_set_that_is_cut_off_between_two_files_leaves_none(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                                             ) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(generate.atomic, "write_json", interrupted)  # the manifest, which is written last
    with pytest.raises(KeyboardInterrupt):
        generate.make_files(["addition"], 2, 1, 0, tmp_path / name, force=False)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(("name", "count"), [("dev-reasoning", 550), ("eval", 100)])
def test_shipped_names_mean_their_digest(name: str, count: int) -> None:
    made = named_sets.make_set(name)
    records = made.traces or made.items
    assert len(records) == count
    content = traces_bytes(made.traces) if name == "dev-reasoning" else items_bytes(made.items)
    assert bytes_digest(content) == named_sets.shipped_sets()[name].sha256


def test_a_changed_generator_cannot_change_a_name_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixed, "VERSION", 99)
    with pytest.raises(RecordError, match="makes other data"):
        named_sets.make_set("eval")


def test_unknown_names_and_mixtures_are_refused() -> None:
    with pytest.raises(RequestError, match="one of dev-reasoning, eval"):
        named_sets.make_set("evil")
    with pytest.raises(RequestError, match="addition alone"):
        named_sets.make_kinds(["addition", "geometry"], 5, 5, 0)
    assert len(named_sets.make_kinds(["addition"], 5, 3, 0)[1]) == 3
    assert named_sets.kind_version(["addition"]) == named_sets.kind_version(["geometry"]) == 1
