"""Forgeries that were sealed again: which check catches which, and which only an anchor or another run settles."""

import shutil
from pathlib import Path

import pytest

from tests.evidence import reseal
from tests.evidence.forgeries import CAUGHT, ONLY_ANCHOR_OR_REPLAY, Forgery
from tests.evidence.verdicts import failed
from tests.record import synthetic
from workings.evidence.verify import verify
from workings.record.seal import root_digest


@pytest.mark.parametrize("forge", CAUGHT, ids=lambda forge: forge.__name__)
def test_caught(run: Path, forge: Forgery) -> None:
    forge(run)
    reseal.reseal(run)
    assert CAUGHT[forge] in failed(run)


def test_an_evaluation_of_another_run(run: Path, tmp_path: Path) -> None:
    other = synthetic.sealed_run(tmp_path / "others" / "tiny", status_reason="another run altogether")
    assert root_digest(other) != root_digest(run)
    shutil.rmtree(run / "eval")
    synthetic.add_evaluation(other)
    shutil.copytree(other / "eval", run / "eval")
    assert failed(run) == {"consistency.made_from"}


def test_resealing_itself_leaves_a_good_record(run: Path) -> None:
    """The forger's tools are right: without a forgery, nothing fails."""
    reseal.reseal(run)
    assert failed(run) == set()


@pytest.mark.parametrize("forge", ONLY_ANCHOR_OR_REPLAY, ids=lambda forge: forge.__name__)
def test_what_only_a_digest_kept_elsewhere_or_another_run_settles(run: Path, forge: Forgery) -> None:
    kept = verify(run, level=0).root
    forge(run)
    reseal.reseal(run)
    # Consistent in itself: levels 0 to 2 say so and do not say more.
    assert failed(run) == set()
    assert failed(run, expect_root=kept) == {"integrity.anchor"}
