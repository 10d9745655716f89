"""The model card of a run, in the form that the Hugging Face Hub reads: metadata with `model-index`, then a page.

Names are in backticks or quotes.
"""

from collections.abc import Mapping
from typing import Any

import yaml

from workings.models.unverified import said_of_recipe
from workings.record.manifest import RunManifest
from workings.record.values import Absent

NOT_EVALUATED = "\n## Evaluation\n\nIt was not evaluated.\n"
_COLUMNS = (("n", 1, ",.0f"), ("correct", 1, ",.0f"), ("mean", 100, ".1f"), ("ci_low", 100, ".1f"),
            ("ci_high", 100, ".1f"))
"""Columns of a scorecard's table: key in a cell, factor (100 for per cent), and number format."""


def model_card(run_path: str, manifest: RunManifest, root: str, evaluations: Mapping[str, Mapping[str, Any]],
               metadata: Mapping[str, Any]) -> str:
    """The card of a run at ``run_path`` in the pack, with this root digest.

    ``evaluations``: the `summary` and `config` of each unit, by its name; ``metadata``: what the Hub should read of
    library, base, licence and data.
    """
    scored = {name: each for name, each in sorted(evaluations.items())
              if isinstance(each["summary"], dict) and "overall" in each["summary"].get("scorecard", {})}
    scorecards = "".join(_scorecard(name, each) for name, each in scored.items()) or NOT_EVALUATED
    return (f"{_metadata(manifest, scored, metadata)}\n# {_code(manifest.name)}\n\n{_training(manifest)}"
            f"{scorecards}\n## Check it\n\nThe record's root digest:\n\n    {root}\n\n"
            "With the record, check it offline and without any ML library:\n\n"
            f"    workings verify {run_path} --expect-root {root}\n")


def _metadata(manifest: RunManifest, scored: Mapping[str, Mapping[str, Any]], given: Mapping[str, Any]) -> str:
    values = {"pipeline_tag": "text-generation", "tags": ["workings", "reasoning"], **given}
    results = [{"task": {"type": "text-generation"},
                "dataset": {"name": name, "type": "workings-items",
                            "args": {"sha256": str(evaluation["config"].get("items", {}).get("digest", ""))}},
                "metrics": [{"type": "accuracy", "name": _metric(evaluation["config"]),
                             "value": round(evaluation["summary"]["scorecard"]["overall"]["mean"], 4)}]}
               for name, evaluation in scored.items()]
    if results:
        values["model-index"] = [{"name": manifest.name, "results": results}]
    return f"---\n{yaml.safe_dump(values, sort_keys=False, allow_unicode=True)}---\n"


def _training(manifest: RunManifest) -> str:
    origin = f"{_code(manifest.model_id)}, family"
    if isinstance(manifest.weight_digests, Absent):
        origin = "random weights of the family"
    loss = "" if isinstance(manifest.final_loss, Absent) else f"; final loss {manifest.final_loss:.4f}"
    text = (f"Status: {manifest.status}. Trained from {origin} {_code(manifest.architecture)} "
            f"({manifest.parameters:,} parameters) for {manifest.completed_steps:,} of {manifest.planned_steps:,} "
            f"steps, on {manifest.supervised_tokens:,} supervised tokens, with engine {_code(manifest.engine)} on "
            f"{_code(manifest.hardware)}{loss}.\n\nRecipe {_code(manifest.recipe)}, made by "
            f"`workings {manifest.workings_version}`; seed {manifest.seed}.\n")
    said = said_of_recipe(manifest.config, manifest.architecture)
    return f"{text}\n{said}\n" if said else text


def _metric(config: Mapping[str, Any]) -> str:
    scorer = config["scorer"].get("name")  # none if another program gave the scores
    return f"accuracy by the scorer {scorer}" if scorer else "accuracy"


def _scorecard(name: str, evaluation: Mapping[str, Any]) -> str:
    scorecard: Mapping[str, Any] = evaluation["summary"]["scorecard"]
    text = (f"\n## Evaluation {_code(name)}\n\nMetric: {_code(_metric(evaluation['config']))}, with its 95 % "
            "interval.\n\n| part | items | right | accuracy % | from % | to % |\n|---|---|---|---|---|---|\n")
    sections = sorted(scorecard.get("per_section", {}).items())
    rows = {"all": scorecard["overall"]} | {f"section {_code(section)}": cell for section, cell in sections}
    for title, cell in rows.items():
        numbers = [format(factor * cell[key], form) if isinstance(cell.get(key), int | float) else "none"
                   for key, factor, form in _COLUMNS]
        text += f"| {' | '.join([title, *numbers])} |\n"
    return text


def _code(name: str) -> str:
    """A name, set off so that digits in it are no numbers; a backtick or a line break cannot end it."""
    return "`" + " ".join(name.replace("`", "'").split()) + "`"
