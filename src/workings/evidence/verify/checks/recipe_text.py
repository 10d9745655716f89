"""Level 1: the recipe as it was written, with the words of the command line, gives the recipe that ran."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workings.config.load import parse_recipe
from workings.errors import RecordError, RequestError
from workings.evidence.verify.checks.data_order import batches_of, has_few_sequences
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import Found, check, not_checked, only_if_written_by_train, same_json
from workings.record.layout import ANNOUNCED, CONFIG, DATA_DIGESTS, EVENTS, OVERRIDES, RECIPE, RECIPE_EVALUATION

MAX_RECIPE_BYTES = 1 << 18
"""A recipe has a few kilobytes; a larger text is not parsed."""


@check("consistency.recipe", precondition=only_if_written_by_train)
def recipe(unit: Unit) -> Found:
    """The recipe, read and resolved again; defaults are compared only for a record of this version."""
    if unit.manifest.facts.get("smoke") is True:
        return not_checked("a smoke run: its recipe was made small", blocking=False)
    words = unit.json(OVERRIDES)
    overrides = words.get("overrides") if isinstance(words, dict) else None
    if not isinstance(overrides, list) or not all(isinstance(word, str) for word in overrides):
        raise RecordError(f"{OVERRIDES}: no list of overrides")
    # Broken bytes become signs that no recipe has, and the parser's error names the place.
    text = unit.read(RECIPE, MAX_RECIPE_BYTES).decode("utf-8", errors="replace")
    # Other versions may have other defaults; written keys mean the same.
    same_version = unit.written_by_this_version
    try:
        # An empty folder: no file that the recipe names is opened.
        loaded = parse_recipe(text, RECIPE, Path(), overrides)
    except RequestError as error:
        if same_version and unit.recipe is not None:
            yield (f"{RECIPE}: this version reads the recipe that ran, and not the one as written: "
                   f"{error.given[:120]}")
        return not_checked(f"this version does not read it: {error.given[:120]}", blocking=False)
    resolved, written = loaded.resolved(), loaded.recipe.model_dump(mode="json", exclude_unset=True)
    if loaded.recipe.training.epochs and has_few_sequences(unit):
        # The file says how often the rows are gone through; how many steps that is follows from them.
        steps = batches_of(unit).steps_in(loaded.recipe.training.epochs)
        resolved["training"]["steps"] = written["training"]["steps"] = steps
    yield from _differences(unit.json(CONFIG), resolved if same_version else written, "", exact=same_version)
    if isinstance(words.get("renamed"), list) and same_version and words["renamed"] != list(loaded.renamed):
        yield f"{OVERRIDES}: renamed is not what the recipe's keys give"
    return f"{RECIPE} and {len(overrides)} overrides" if same_version else not_checked(
        f"defaults of {unit.manifest.workings_version[:20]}; written keys agree", blocking=False)


def _differences(recorded: Any, expected: Any, path: str, *, exact: bool) -> Iterator[str]:
    """Differences between the recorded value and the expected one. Keys of later versions only are left out."""
    if isinstance(recorded, dict) and isinstance(expected, dict):
        for key in sorted(recorded.keys() - expected.keys()) if exact else ():
            yield f"{path}{key[:40]} is no key of the recipe as written"
        for key in expected:
            if key in recorded:
                yield from _differences(recorded[key], expected[key], f"{path}{key}.", exact=exact)
    # Here 1 and 1.0 may be equal: YAML and JSON write the same number in both ways.
    elif recorded != expected:
        yield f"{path[:-1]} is {str(recorded)[:40]}, the recipe as written gives {str(expected)[:40]}"


@check("consistency.recipe", when=lambda unit: unit.written_by_train)
def config(unit: Unit) -> Found:
    """Digests of evaluation data against the recipe; the event that announces the evaluation."""
    section, digests = unit.section("evaluation"), unit.manifest.data_digests
    # Those that the recipe names have a digest, and no others.
    for key, name in (("items", "items"), ("traces", "evaluation_traces")):
        if "evaluation" in unit.manifest.config and (name in digests) is (section.get(key, "none") == "none"):
            yield (f"the recipe's evaluation.{key} is {str(section.get(key))[:40]!r}, and {DATA_DIGESTS} has "
                   f"{'one' if name in digests else 'none'} of {name}")
    yield from _announcement_problems(unit)
    return f"config digest {unit.manifest.config_digest[:16]}…"


def _announcement_problems(unit: Unit) -> Iterator[str]:
    """The event that announces the evaluation: once, before the first step, as the recipe asks."""
    from workings.evaluation.settings import settings_of
    if not unit.written_by_this_version or (recipe := unit.recipe) is None:
        return
    told = [row for row in unit.events if row.get("kind") == ANNOUNCED]
    asked = int(recipe.evaluation.items != "none")
    # An attempt that was killed at once announced nothing, and a later one could know the answers.
    if len(told) > asked or (len(told) < asked and not unit.manifest.resumes):
        yield f"{len(told)} events announce the evaluation of {recipe.evaluation.items[:40]!r}"
    expected = {"decoding": settings_of(recipe).decoding(), "evaluation": RECIPE_EVALUATION}
    yield from (f"{EVENTS}: announced with {key} {str(told[0].get(key))[:80]}, the recipe asks for {str(value)[:80]}"
                for key, value in expected.items() if told and not same_json(told[0].get(key), value))
