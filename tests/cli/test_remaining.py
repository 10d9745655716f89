"""How much longer something takes, as verbs say it."""

import time

import pytest

from workings.cli.output import Remaining


def test_time_left_is_that_of_the_pace_since_the_first_report(
        capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    say = Remaining("prompts")
    # Ten a report, after 10, 60 and 9,000 seconds: 1, 3.5 and 303 seconds each on average.
    for at, done in ((100.0, 10), (110.0, 20), (170.0, 30), (9190.0, 40), (9200.0, 100)):
        monkeypatch.setattr(time, "monotonic", lambda at=at: at)
        say(done, 100)
    assert capsys.readouterr().err.splitlines() == [
        "10 of 100 prompts", "20 of 100 prompts, 80 s left", "30 of 100 prompts, 4 min left",
        "40 of 100 prompts, 5 h 03 min left", "100 of 100 prompts"]
