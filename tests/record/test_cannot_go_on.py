"""A run that cannot be gone on with says which file is in the way, and what to type."""

from pathlib import Path

import pytest

from workings.errors import RecordError
from workings.record import recovery
from workings.record.checkpoints import CheckpointStore
from workings.record.layout import METRICS, partial_path
from workings.record.writer import RunWriter


def stopped(place: Path, metrics: str) -> Path:
    """A run that stopped with these lines of metrics."""
    RunWriter.create(place).close()
    (partial_path(place) / METRICS).write_text(metrics)
    return place


def test_a_damaged_line_is_named_and_the_lock_is_free(tmp_path: Path) -> None:
    out = stopped(tmp_path / "run", '{"step": 1}\n{"step":\n{"step": 3}\n')
    for _ in range(2):  # the first attempt holds nothing
        with pytest.raises(RecordError) as caught:
            RunWriter.resume(out)
        assert "line 2" in str(caught.value)
        assert str(partial_path(out) / METRICS) in str(caught.value)
        assert "another --out" in str(caught.value)


def test_lines_that_are_gone_are_named(tmp_path: Path) -> None:
    out = stopped(tmp_path / "run", '{"step": 1}\n')
    with pytest.raises(RecordError, match="lines of steps 1 to 4") as caught:
        recovery.keep_metrics(partial_path(out) / METRICS, 4)
    assert "another --out" in str(caught.value)


def test_a_link_is_no_checkpoint_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoints", keep_last=1)
    saved = store.save(1, lambda folder: (folder / "weights").write_bytes(b"w"), {})
    elsewhere = saved.rename(tmp_path / "elsewhere")
    saved.symlink_to(elsewhere)
    with pytest.raises(RecordError, match="step_000001: a link"):
        store.load(saved)
    assert store.latest_valid()[0] is None
    store.save(2, lambda folder: (folder / "weights").write_bytes(b"w"), {})
    assert not saved.is_symlink()
    assert (elsewhere / "weights").is_file()
