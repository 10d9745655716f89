"""The page: complete, self-contained, accessible, and never markup from a run."""

import json
import re
from pathlib import Path

import pytest

from tests.evaluation.making import completions, items, score, write_lines
from tests.reports.making import two_runs
from tests.reports.parsed_page import Page
from workings.errors import RequestError
from workings.evaluation.comparison.compare import compare
from workings.evaluation.run import evaluate_predictions
from workings.reports.html import write_report


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return two_runs(tmp_path_factory.mktemp("compared"))


@pytest.fixture(scope="module")
def text(runs: list[Path]) -> str:
    """The page of their comparison."""
    return write_report(runs[0].parent / "out" / "page.html", runs, compare(*runs)).read_text(encoding="utf-8")


def test_a_comparison_page_says_everything(runs: list[Path], text: str) -> None:
    comparison, page = compare(*runs), Page(text)
    assert page.open == []
    assert comparison.sentence.replace(" %", "\u00a0%") in "".join(page.words)
    for words in ("steps is better", "90.0 % (95 % interval", "+40.0 points", "Training loss",
                 "core (30)", "items: ", "Root digest", f"workings compare {runs[0]} {runs[1]}",
                 f"workings verify {runs[0]} --expect-root ", "chat template is not recorded for both",
                 "so it is", "Tango", "In the trained form not measured on any item", "hashes 60"):
        assert words in page.text, words


def test_a_run_is_trained_again_from_its_recipe(tmp_path: Path) -> None:
    (run, _) = two_runs(tmp_path / "runs")
    page = Page(write_report(tmp_path / "page.html", [run]).read_text(encoding="utf-8"))
    assert f"workings train {run}/config/recipe.yaml --out {run}-again" in page.text
    asked = json.loads((run / "config" / "overrides.json").read_text())
    original = tmp_path / "recipes" / asked["origin"]
    original.parent.mkdir()
    original.write_text("name: x")
    page = Page(write_report(tmp_path / "page.html", [run]).read_text(encoding="utf-8"))
    assert f"workings train {original} --out {run}-again" in page.text


def test_nothing_is_loaded_and_nothing_runs(text: str) -> None:
    page = Page(text)
    assert not {tag for tag, _ in page.tags} & {"script", "link", "iframe", "object", "embed", "img", "base", "form"}
    assert not re.search(r"https?://|url\(|@import", text)
    for _, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "srcset", "style")]
        assert (attributes.get("href") or "#").startswith("#")
    policy = next(a["content"] for a in page.named("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")


def test_every_figure_has_words_and_a_table(text: str) -> None:
    page = Page(text)
    drawn = [a for a in page.named("svg") if a.get("role") == "img"]
    assert len(drawn) == 2 * len(page.named("figure"))  # wide and narrow
    assert all(len(a["aria-label"] or "") > 30 for a in drawn)
    assert len(page.named("table")) >= len(page.named("figure"))
    assert all(a.get("scope") in ("col", "row") for a in page.named("th"))
    assert {"lang": "en"} in page.named("html")
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    assert all(a["aria-labelledby"] in ids for a in page.named("section"))


def test_text_of_a_run_is_never_markup(tmp_path: Path) -> None:
    attack = "</pre><script>alert(1)</script><img src=x onerror=alert(1)> {{ 7*7 }}"
    asked = [*items(9)]
    units = []
    for name, answer in (("a", "-1"), ("b", "7")):
        lines = completions(asked, [True] * 9)
        lines[0]["completion"] = f"{attack}\n#### {answer}"
        evaluate_predictions(write_lines(tmp_path / f"{name}.jsonl", lines), asked, tmp_path / name)
        units.append(tmp_path / name)
    hostile = tmp_path / "<img src=x onerror=alert(1)>"
    units[0].rename(hostile)
    page = Page(write_report(tmp_path / "p.html", [hostile, units[1]], compare(hostile, units[1])).read_text("utf-8"))
    assert not {tag for tag, _ in page.tags} & {"script", "img"}
    assert attack in page.text  # as it was written: neither markup nor a template


def test_without_numbers_to_compare_none_are_claimed(tmp_path: Path) -> None:
    run = two_runs(tmp_path)[0]
    page = Page(write_report(tmp_path / "page.html", [run]).read_text(encoding="utf-8"))
    assert "50.0" in page.text
    assert "better" not in page.text.split("Accuracies carry")[0]
    units = [score(tmp_path, name, items(size), [True] * size) for name, size in (("a", 10), ("b", 12))]
    page = Page(write_report(tmp_path / "page.html", units, compare(*units)).read_text(encoding="utf-8"))
    assert "a and b are not comparable: items differ" in page.text
    assert "Difference on the same items" not in page.text


@pytest.mark.parametrize("count", [0, 5])
def test_too_few_or_too_many_runs_are_refused(tmp_path: Path, count: int) -> None:
    with pytest.raises(RequestError, match=f"{count} runs"):
        write_report(tmp_path / "page.html", [tmp_path] * count)
