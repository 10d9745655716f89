"""Tasks of other people's harnesses, local and offline. For the tests."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.evaluation.making import write_lines


def multiple_choice(folder: Path, count: int = 6) -> Path:
    """A task file: which of four numbers is the sum."""
    docs = [{"q": f"{k + 3} + {2 * k + 1} =", "gold": 1,
             "choices": [str(3 * k + 4 + shift) for shift in (-1, 0, 2, 10)]} for k in range(count)]
    return _write(folder, "sums_choice", docs, {
        "output_type": "multiple_choice", "doc_to_text": "{{q}}", "doc_to_choice": "{{choices}}",
        "doc_to_target": "{{gold}}", "metric_list": [
            {"metric": name, "aggregation": "mean", "higher_is_better": True} for name in ("acc", "acc_norm")]})


def questions(folder: Path, docs: Sequence[dict[str, Any]], tokens: int) -> Path:
    """A task file with GSM8K's two filters: the model writes up to this many tokens."""
    return _write(folder, "sums_written", docs, {
        "output_type": "generate_until", "doc_to_text": "{{question}}", "doc_to_target": "{{answer}}",
        "generation_kwargs": {"until": ["Question:"], "do_sample": False, "max_gen_toks": tokens},
        "filter_list": [
            {"name": "strict-match", "filter": [{"function": "regex", "regex_pattern": r"#### (\-?[0-9\.\,]+)"},
                                                {"function": "take_first"}]},
            {"name": "flexible-extract", "filter": [
                {"function": "regex", "group_select": -1, "regex_pattern": r"(-?[$0-9.,]{2,})|(-?[0-9]+)"},
                {"function": "take_first"}]}],
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True,
                         "regexes_to_ignore": [",", r"\$", "(?s).*#### ", r"\.$"]}]})


def _write(folder: Path, name: str, docs: Sequence[dict[str, Any]], rest: dict[str, Any]) -> Path:
    file = write_lines(folder / f"{name}.jsonl", list(docs))
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({
        "task": name, "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(file)}},
        "test_split": "test", "metadata": {"version": 1.0}, **rest}))
    return path


INSPECT = '''"""Sums, asked by inspect_ai."""

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import pattern
from inspect_ai.solver import generate


@task
def sums() -> Task:
    """Sums of two numbers."""
    return Task(dataset=[Sample(id=f"sum-{k}", input=f"What is {k}+7?", target=str(k + 7)) for k in range(1, 9)],
                solver=generate(), scorer=pattern(r"<answer>(\\d+)</answer>"))
'''
"""A task file of inspect_ai."""


def inspect_file(folder: Path) -> Path:
    """The file of `INSPECT`."""
    (folder / "sums.py").write_text(INSPECT)
    return folder / "sums.py"


def lines(unit: Path) -> list[dict[str, Any]]:
    """The predictions of a sealed unit."""
    return [json.loads(line) for line in (unit / "predictions.jsonl").read_text().splitlines()]
