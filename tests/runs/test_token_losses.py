"""Loss by token: of a trained model on one row, as text, as JSON and as a page."""

import json

import pytest

from tests import kept_folders
from tests.reports.parsed_page import Page
from tests.runs.improving import write_task
from tests.runs.runs_helpers import write_recipe
from workings.data.batches import fixed_batches
from workings.data.rows import build_rows
from workings.data.traces import read_traces
from workings.errors import RequestError
from workings.reports.surprise_page import ShadedToken
from workings.runs.open_model import open_run
from workings.runs.token_losses import token_losses
from workings.runs.train import train


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    def make(folder):
        train(str(write_task(folder)), folder / "run", ["training.steps=12"])

    return kept_folders.copy(make, tmp_path_factory.mktemp("surprise"), "surprise") / "run"


@pytest.mark.children
def test_the_losses_of_a_row_are_those_that_its_evaluation_adds_up(trained, workings, tmp_path):
    found = token_losses(trained, "t3")
    opened = open_run(trained)
    traces = [trace for trace in read_traces(trained.parent / "traces.jsonl") if trace.id == "t3"]
    rows = build_rows(traces, opened.session.tokenizer, opened.session.template, opened.recipe.data)
    summed = opened.session.engine.evaluate(opened.session.state, fixed_batches(rows, 1, opened.recipe.data)[0])
    assert found.mean_loss == pytest.approx(summed.loss_sum / summed.supervised_tokens, rel=1e-5)
    assert len(found.supervised_tokens) == rows.rows[0].supervised_tokens
    assert [token.piece.learned for token in found.tokens] == [bool(one) for one in rows.rows[0].loss_mask]
    # The most surprising first, each behind what comes before it.
    (first, worst), (_, second) = found.largest(2)
    assert worst.loss == max(token.loss for token in found.supervised_tokens) >= second.loss
    assert "".join(token.piece.text for token in found.tokens[:first - 1]).endswith(found.before(first))

    page = tmp_path / "pages" / "t3.html"
    done = workings("data", "surprise", trained, "--row", "t3", "--html", page, "--json")
    assert json.loads(done.stdout.splitlines()[-1]) == found.to_json()
    shown = Page(page.read_text())
    assert shown.open == []
    assert [a["title"] for a in shown.named("span") if "title" in a] == [
        token.said for token in found.page("run").tokens if token.probability is not None]
    assert f"mean loss {found.mean_loss:.3f} by run after step 12" in shown.text


def test_any_trace_may_be_asked_about_and_what_is_none_is_named(trained, tmp_path):
    assert token_losses(trained).row == "t0"
    (tmp_path / "own.jsonl").write_text('{"id": "x", "prompt": "What?", "steps": ["So."], "answer": "7"}\n')
    assert token_losses(trained, traces=tmp_path / "own.jsonl").row == "x"
    with pytest.raises(RequestError, match=r"(?s)--row gone.*such as t0, t1, t2"):
        token_losses(trained, "gone")


def test_an_engine_that_says_no_probabilities_is_named(tmp_path):
    run = train(str(write_recipe(tmp_path / "asked")), tmp_path / "run").run
    with pytest.raises(RequestError, match="engine unigram, which computes no log probabilities"):
        token_losses(run)


@pytest.mark.parametrize(("probability", "level", "said"), [
    (1.0, 0, "100.0 %"), (0.5, 0, "50.0 %"), (0.499, 1, "49.9 %"), (0.1, 1, "10.0 %"), (0.05, 2, "5.0 %"),
    (0.01, 2, "1.0 %"), (0.0099, 3, "1.0 %"), (1e-9, 3, "under 0.1 %")])
def test_classes_of_surprise(probability, level, said):
    token = ShadedToken("7", probability)
    assert (token.level, token.said) == (level, said)
