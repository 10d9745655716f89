"""``eval_summary.json``, from the predictions as they were written."""

from collections import Counter
from pathlib import Path
from typing import Any

from workings.answers.extract import answer_kind
from workings.evaluation.predictions import item_result, read_predictions
from workings.evaluation.scorecard import ItemResult, Scorecard, build_scorecard, interval_json, mean_interval

NAMES = ("expect a name or phrase: the scorer `answer` looks for it in the marked answer or the final sentences, as "
         "`contains` does, because a sentence says it among other words")
"""Why names are scored differently from numbers."""
_RATES = ("format_ok", "truncated", "empty", "step_validity")
_LENGTHS = ("completion_tokens", "reasoning_chars")
_SHOWN_IDS = 20


class EvaluationSummary:
    """One pass over predictions: the scorecard and what else was measured."""

    def __init__(self, predictions: Path, aggregate: str) -> None:
        """Read the file once; memory grows with the number of items, not with the length of their texts."""
        self.results: list[ItemResult] = []
        self._rules: Counter[str] = Counter()
        self._names = 0
        self._errors: dict[str, list[str]] = {}
        for samples in read_predictions(predictions):
            self._add(samples, aggregate)
        self.scorecard: Scorecard = build_scorecard(self.results)

    def _add(self, samples: list[dict[str, Any]], aggregate: str) -> None:
        result = item_result(samples, aggregate)
        self.results.append(result)
        self._names += answer_kind(str(samples[0].get("gold", "")), str(samples[0].get("prompt", "")),
                                   samples[0].get("aliases", [])) == "name"
        for sample in samples:
            self._rules[str(sample["rule"])] += 1
            if "error" in sample:
                # What is before the colon is the kind; the rest is about this one completion.
                self._errors.setdefault(str(sample["error"]).split(":", 1)[0], []).append(result.id)

    def to_json(self, problems: dict[str, Any]) -> dict[str, Any]:
        """The record; ``problems`` are those of the file the completions came from."""
        names = {"names": {"items": self._names, "why": NAMES}} if self._names else {}
        return {
            "schema": "eval_summary/1", **names,
            "scorecard": self.scorecard.to_json(),
            "behaviour": self._behaviour(),
            "rules": dict(sorted(self._rules.items())),
            "errors": {kind: {"count": len(ids), "first": ids[:_SHOWN_IDS]}
                       for kind, ids in sorted(self._errors.items())},
            "problems": problems,
        }

    def _behaviour(self) -> dict[str, Any]:
        """Rates and lengths next to the score, each with its own number of items."""
        behaviour: dict[str, Any] = {}
        for name in (*_RATES, *_LENGTHS):
            having = [result for result in self.results if name in result.measures]
            if not having:
                behaviour[name] = {"absent": "not measured on any item"}
                continue
            values = [result.measures[name] for result in having]
            # By clusters: items made from one text are not independent, and the interval would be too narrow.
            interval = mean_interval(values, [result.cluster for result in having])
            behaviour[name] = {"n": len(values), "mean": sum(values) / len(values), **interval_json(interval)}
        return behaviour
