"""Plans of the PyTorch engine on cards that are not here: by trace, in a child, kept by digest."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.planning.planning_helpers import recipe, rewarded, shape
from workings.errors import RequestError
from workings.hardware.catalog import find_target
from workings.planning.plan import Plan, make_plan

pytest.importorskip("torch")
pytest.importorskip("transformers")
TORCH: dict[str, Any] = {"engine": "torch", "device": "gpu"}
REWARDED = rewarded(**TORCH)


@pytest.fixture(scope="module")
def one_card(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Plan]:
    """A plan for a T4, and where plans are kept."""
    place = tmp_path_factory.mktemp("plans")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKINGS_CACHE", str(place))
        return place, make_plan(REWARDED, shape(), find_target("t4"))


def test_a_plan_for_a_card_is_traced_once_and_judged_against_the_whole_card(
        one_card: tuple[Path, Plan], monkeypatch: pytest.MonkeyPatch) -> None:
    (place, made), t4 = one_card, find_target("t4")
    assert made.verdict.source == "traced"
    assert made.verdict.fits
    assert made.verdict.limit_bytes == t4.memory_bytes
    assert set(made.peaks) == {"step", "drawing", "log_probs"}
    assert made.verdict.peak_bytes == max(made.peaks.values())
    assert sum(part.size_bytes for part in made.parts) == made.verdict.peak_bytes
    assert any("under fake tensors" in reason for reason in made.reasons)
    assert not any("XLA" in reason for reason in made.reasons)
    monkeypatch.setenv("WORKINGS_CACHE", str(place))
    monkeypatch.setattr(subprocess, "run", lambda *words, **options: pytest.fail("asked again"))
    assert make_plan(REWARDED, shape(), t4).peaks == made.peaks
    assert len([*(place / "plans").iterdir()]) == len(made.peaks)


@pytest.mark.full
def test_a_plan_for_two_cards_traces_one_process_of_two(
        tmp_path: Path, one_card: tuple[Path, Plan], monkeypatch: pytest.MonkeyPatch) -> None:
    """The state is halved, everything else is gathered and sent; what cannot be split is refused before any launch."""
    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path))
    two, one = make_plan(recipe(**TORCH), shape(), find_target("t4x2")), one_card[1]
    assert two.verdict.source == "traced"
    assert any("traced per device, world 2" in reason for reason in two.reasons)
    state = [sum(part.size_bytes for part in made.parts if part.name in ("parameters", "moments"))
             for made in (two, one)]
    assert 0.49 < state[0] / state[1] < 0.6
    with pytest.raises(RequestError, match="adamw8bit cannot be split among 2 processes"):
        make_plan(recipe(**TORCH, optimizer={"name": "adamw8bit"}), shape(), find_target("t4x2"))
