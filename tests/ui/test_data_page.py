"""The data page says of every turn of a conversation what is learned of it."""

from pathlib import Path

import pytest

from tests.data.conversations import conversations
from tests.reports.parsed_page import Page
from tests.ui.making import answer_here, client
from workings.data.traces import write_traces


@pytest.mark.parametrize(("learn", "share", "said"), [
    ("last", "50.0 %", "Turns: user (read), assistant (read), user (read), assistant ("),
    ("all", "100.0 %", "Turns: user (read), assistant (6 tokens learned), user (read), assistant (6 tokens learned)")])
def test_every_turn_with_what_is_learned_of_it(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, learn: str, share: str, said: str) -> None:
    write_traces(tmp_path / "talks.jsonl", conversations(12))
    answer_here(monkeypatch)
    overrides = "\n".join([f"data.traces={tmp_path / 'talks.jsonl'}", "data.reasoning=answer_only", "data.buckets=[]",
                           f"data.learn={learn}", "data.max_length=200"])
    asked = client(tmp_path, monkeypatch).get("/data", params={"recipe": "quickstart", "overrides": overrides})
    page = Page(asked.text).text
    assert asked.status_code == 200
    assert f"Assistant turns learned {share}" in page
    assert f"of 24; data.learn: {learn}" in page
    assert said in page
