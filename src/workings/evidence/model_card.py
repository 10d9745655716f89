"""The model card of a run, in the form that the Hugging Face Hub reads: metadata with `model-index`, then a page.

It follows from the record alone, so that a verifier makes it again and compares. Names stand in backticks or quotes;
every other number is a claim with its source.
"""

import json
from collections.abc import Mapping
from typing import Any

from workings.evidence.claims import ClaimedText, ClaimSource, pointer_to
from workings.models.unproven import said_of_recipe
from workings.record.layout import EVALUATION_SUMMARY, MANIFEST
from workings.record.manifest import RunManifest
from workings.record.values import Absent

FORM = "model_card/2"
"""Version of the card's text. Another text gets another number, so that cards of earlier packs do not fail."""
SCRATCH = "random weights"


def model_card(document: str, run_path: str, manifest: RunManifest, root: str,
               evaluations: Mapping[str, Mapping[str, Any]]) -> ClaimedText:
    """A run's card.

    Args:
        document: path of the card in the pack.
        run_path: path of the run in the pack.
        manifest: the run's manifest.
        root: the run's root digest.
        evaluations: by the unit's name, its `summary` and `config`.
    """
    text = ClaimedText(document)
    # Sorted, because a verifier makes the card again and compares the bytes.
    cards = {name: card for name, card in sorted(evaluations.items()) if _overall(card) is not None}
    _metadata(text, run_path, manifest, cards)
    text.say(f"\n# {_code(manifest.name)}\n\n")
    _training(text, f"{run_path}/{MANIFEST}", manifest)
    for name, card in cards.items():
        _scorecard(text, f"{run_path}/eval/{name}/{EVALUATION_SUMMARY}", name, card)
    if not cards:
        text.say("\n## Evaluation\n\nIt was not evaluated.\n")
    text.say(f"\n## Check it\n\nEvery number above has its source in `claims.json`. The record's root digest:\n\n"
             f"    {root}\n\nWhoever has the record checks it, offline and without any ML library:\n\n"
             f"    workings verify {run_path} --expect-root {root}\n")
    return text


def _metadata(text: ClaimedText, run_path: str, manifest: RunManifest, cards: Mapping[str, Mapping[str, Any]]) -> None:
    """YAML; texts in JSON's quotes, which YAML reads too."""
    text.say("---\nlibrary_name: transformers\npipeline_tag: text-generation\ntags:\n- workings\n- reasoning\n")
    # The Hub links this key to a model page; random weights have none.
    if not _is_scratch(manifest):
        text.say(f"base_model: {json.dumps(manifest.model_id)}\n")
    if cards:
        text.say(f"model-index:\n- name: {json.dumps(manifest.name)}\n  results:\n")
    for name, card in cards.items():
        config = card["config"]
        digest = config.get("items", {}).get("digest", "") if isinstance(config, dict) else ""
        text.say(f"  - task:\n      type: text-generation\n    dataset:\n      name: {json.dumps(name)}\n"
                 f"      type: workings-items\n      args:\n        sha256: {json.dumps(str(digest))}\n"
                 f"    metrics:\n    - type: accuracy\n      name: {json.dumps(_metric(config))}"
                 "\n      value: ")
        overall = card["summary"]["scorecard"]["overall"]
        text.number(overall["mean"], _source(run_path, name, "mean"), digits=4).say("\n")
    text.say("---\n")


def _training(text: ClaimedText, file: str, manifest: RunManifest) -> None:
    # Each number is written by `number`, which notes its offset: a number in plain text would be one without a source.
    def value(name: str) -> ClaimSource:
        return ClaimSource(file=file, pointer=pointer_to(name))

    begin = f"{SCRATCH} of the family" if _is_scratch(manifest) else f"{_code(manifest.model_id)}, family"
    text.say(f"Status: {manifest.status}. Trained from {begin} {_code(manifest.architecture)} (")
    text.number(manifest.parameters, value("parameters")).say(" parameters) for ")
    text.number(manifest.completed_steps, value("completed_steps")).say(" of ")
    text.number(manifest.planned_steps, value("planned_steps")).say(" steps, on ")
    text.number(manifest.supervised_tokens, value("supervised_tokens"))
    text.say(f" supervised tokens, with engine {_code(manifest.engine)} on {_code(manifest.hardware)}")
    if not isinstance(manifest.final_loss, Absent):
        text.say("; final loss ").number(manifest.final_loss, value("final_loss"), digits=4)
    text.say(f".\n\nRecipe {_code(manifest.recipe)}, made by `workings {manifest.workings_version}`; seed ")
    text.number(manifest.seed, value("seed")).say(".\n")
    if said := said_of_recipe(manifest.config_snapshot, manifest.architecture):
        text.say(f"\n{said}\n")


def _scorer(config: Any) -> str:
    """The name that the evaluation records; empty where it records none (scores from elsewhere)."""
    scorer = config.get("scorer") if isinstance(config, dict) else None
    return str(scorer.get("name", "")) if isinstance(scorer, dict) else ""


def _metric(config: Any) -> str:
    return f"accuracy by the scorer {_scorer(config)}" if _scorer(config) else "accuracy"


def _scorecard(text: ClaimedText, file: str, name: str, evaluation: Mapping[str, Any]) -> None:
    card: Mapping[str, Any] = evaluation["summary"]["scorecard"]
    text.say(f"\n## Evaluation {_code(name)}\n\nMetric: {_code(_metric(evaluation['config']))}, with its 95 % "
             "interval.\n\n| part | items | right | accuracy % | from % | to % |\n|---|---|---|---|---|---|\n")
    rows: list[tuple[str, tuple[str, ...], Any]] = [("all", ("overall",), card["overall"])]
    rows += [(f"section {_code(section)}", ("per_section", section), cell)
             for section, cell in sorted(card.get("per_section", {}).items())]
    for words, names, cell in rows:
        text.say(f"| {words} |")
        for key, unit, digits in (("n", "number", 0), ("correct", "number", 0), ("mean", "percent", 1),
                                  ("ci_low", "percent", 1), ("ci_high", "percent", 1)):
            # A bound that does not exist is an object that says why, and no number to claim.
            if isinstance(cell.get(key), int | float):
                source = ClaimSource(file=file, pointer=pointer_to("scorecard", *names, key))
                text.say(" ").number(cell[key], source, unit, digits).say(" |")
            else:
                text.say(" none |")
        text.say("\n")


def _source(run_path: str, name: str, key: str) -> ClaimSource:
    return ClaimSource(file=f"{run_path}/eval/{name}/{EVALUATION_SUMMARY}",
                       pointer=pointer_to("scorecard", "overall", key))


def _overall(evaluation: Mapping[str, Any]) -> Any:
    card = evaluation["summary"].get("scorecard") if isinstance(evaluation["summary"], dict) else None
    return card.get("overall") if isinstance(card, dict) else None


def _is_scratch(manifest: RunManifest) -> bool:
    return isinstance(manifest.weight_digests, Absent)


def _code(name: str) -> str:
    """A name, set off so that digits in it are no numbers; a backtick or a line break cannot end it."""
    return "`" + " ".join(name.replace("`", "'").split()) + "`"
