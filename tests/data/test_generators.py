"""Made data sets: the same for the same name, written whole or not at all; tasks of another library."""

from pathlib import Path

import pytest

from workings.data import generate, named_sets
from workings.data.generators import everyday
from workings.errors import RecordError, RequestError


@pytest.mark.parametrize("name", ["folder", "traces.jsonl"])
def test_a_set_that_is_cut_off_between_two_files_leaves_none(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                                             ) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("workings.record.atomic.write_json", interrupted)  # the manifest, which is written last
    with pytest.raises(KeyboardInterrupt):
        generate.make_files("addition", 2, 1, 0, tmp_path / name, force=False)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_shipped_names_mean_their_digest_and_share_no_question() -> None:
    traces, asked = named_sets.make_set("dev-reasoning")[0], named_sets.make_set("eval")[1]
    assert (len(traces), len(asked)) == (550, 100)
    assert not {trace.prompt for trace in traces} & {item.prompt for item in asked}


def test_a_changed_generator_cannot_change_a_name_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(everyday, "VERSION", 99)
    with pytest.raises(RecordError, match="makes other data"):
        named_sets.make_set("eval")


def test_unknown_names_are_refused() -> None:
    with pytest.raises(RequestError, match="one of dev-reasoning, eval"):
        named_sets.make_set("evil")
    with pytest.raises(RequestError, match="addition, unit_conversion"):
        named_sets.make_kind("evil", 1, 1, 0)


def test_tasks_of_reasoning_gym() -> None:
    pytest.importorskip("reasoning_gym", reason="needs the extra `tasks`")
    traces, items = named_sets.make_kind("chain_sum", 20, 5, seed=1)
    assert (len(traces), len(items)) == (20, 5)
    for prompt, answer in [*((one.prompt, one.answer) for one in traces),
                           *((one.prompt, one.expected_answer) for one in items)]:
        assert eval(prompt.partition(":")[2].strip().rstrip(" =.")) == int(answer)
    assert len({one.prompt for one in (*traces, *items)}) == 25
    assert named_sets.make_kind("chain_sum", 20, 5, seed=1) == (traces, items)
    assert named_sets.make_kind("gsm_symbolic", 1, 0, seed=1)[0][0].steps
    with pytest.raises(RequestError, match="different problems"):
        named_sets.make_kind("coin_flip", 5000, 5, seed=1)
    with pytest.raises(RequestError, match="at least one"):
        named_sets.make_kind("chain_sum", 0, 0, seed=1)
