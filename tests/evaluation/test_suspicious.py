"""Completions that say nothing about a model are said to be that, wherever they are scored or compared."""

from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.making import items, score, write_lines
from workings.evaluation.comparison.baseline import set_baseline
from workings.evaluation.comparison.compare import compare
from workings.evaluation.comparison.gate import gate
from workings.evaluation.comparison.ranking import rank
from workings.evaluation.comparison.seeds import compare_seeds
from workings.evaluation.run import evaluate_predictions
from workings.evaluation.suspicious import Suspicions
from workings.evaluation.unit import EvaluationRecord, find_unit

MESSAGES = [
    "Error 429: rate limit exceeded (request req_011CTC7)", '{"error": {"message": "overloaded", "code": 529}}',
    "HTTP 503 Service Unavailable", "openai.RateLimitError: Error code: 429 - {'error': {}}", "[ERROR] request failed",
    "Traceback (most recent call last):\n  File", "Internal Server Error", "Request timed out.", "ERROR: CUDA OOM",
    "litellm.exceptions.Timeout: AnthropicException - 408", "429 Too Many Requests", "status code 500",
    "requests.exceptions.ConnectionError", "API error: invalid_api_key", "Exception: no response", "Unauthorized",
    "<html><head><title>502 Bad Gateway</title>", "ConnectionResetError(104, 'reset')", "Error: model not found",
    "Rate limit reached for gpt"]
ANSWERS = [
    "The error is 5%.", "#### 12", "Errors: she made 3 mistakes, so 9-3=6.", "", "500 apples", "404 is the sum.",
    "Exceptional work gives 7.", "12", "There are 503 people.", "In error terms, 2+2=4", "B", "Yes", "A forbidden city",
    "The server earns 15 dollars an hour.", "Server: 3, cook: 5. Total 8."]


def samples(*texts: str, golds: str = "") -> list[dict[str, str]]:
    return [{"completion": text, "gold": golds or str(number)} for number, text in enumerate(texts)]


def suspicions_of(records: list[dict[str, str]]) -> list[str]:
    found = Suspicions()
    for record in records:
        found.add(record)
    return found.sentences()


def test_error_messages_are_known_and_answers_are_none() -> None:
    for text in MESSAGES:
        assert "error messages" in " ".join(suspicions_of(samples(*[text] * 10))), text
    for text in ANSWERS:
        assert "error messages" not in " ".join(suspicions_of(samples(*[text] * 10))), text


@pytest.mark.parametrize(("texts", "said"), [
    (["HTTP 500"] * 2 + [f"#### {n}" for n in range(18)], ["2 of 20 completions look like error messages, the first: "
                                                           '"HTTP 500"']),
    (["HTTP 500"] + [f"#### {n}" for n in range(18)], []),
    (["HTTP 500"] * 9, [])])
def test_from_which_share_on(texts: list[str], said: list[str]) -> None:
    assert suspicions_of(samples(*texts)) == said


@pytest.mark.parametrize(("cut", "said"), [
    (3, []), (4, ["4 of 20 completions were cut off at the limit on new tokens"])])
def test_answers_that_were_cut_off_are_named(cut: int, said: list[str]) -> None:
    records: list[dict[str, Any]] = [*samples(*map(str, range(20)))]
    assert suspicions_of([record | {"truncated": n < cut} for n, record in enumerate(records)]) == said


def test_no_run_is_called_better_than_error_messages_without_saying_so(tmp_path: Path) -> None:
    asked = items(40)
    good = score(tmp_path, "good", asked, [True] * 40)
    bad = tmp_path / "bad"
    lines = [{"id": item.id, "completion": f"Error 429: rate limit (req_{n}a)"} for n, item in enumerate(asked)]
    evaluate_predictions(write_lines(tmp_path / "bad.jsonl", lines), asked, bad)
    warned = 'bad says little about a model: all 40 completions look like error messages, the first: "Error 429:'
    assert EvaluationRecord(good).warning == ""
    assert EvaluationRecord(bad).warning.startswith(warned)
    found = compare(bad, good)
    assert found.verdict == "better"
    assert warned in found.sentence
    assert found.to_json()["warnings"][0] == EvaluationRecord(bad).warning
    assert "warnings" not in compare(good, good).to_json()
    assert warned in rank([bad, good]).sentence
    other = score(tmp_path, "other", asked, [True] * 39 + [False])
    assert warned in compare_seeds([bad], [good, other]).sentence
    set_baseline(tmp_path / "kept", "main", find_unit(good))
    assert warned in gate(bad, baseline="main", folder=tmp_path / "kept", max_drop=0.1).sentence
