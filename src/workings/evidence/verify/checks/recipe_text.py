"""Level 1: the recipe as it was written, with the words of the command line, gives the recipe that ran."""

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from workings.config.load import parse_recipe
from workings.errors import RecordError, RequestError
from workings.evidence.verify.checks.data_order import batches_of, has_few_sequences
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import (
    check,
    failed,
    finding_from,
    not_checked,
    only_if_written_by_train,
    written_by_this_version,
)
from workings.evidence.verify.result import CheckFinding
from workings.record.layout import CONFIG, OVERRIDES, RECIPE

MAX_RECIPE_BYTES = 1 << 18
"""A recipe has a few kilobytes; a larger text is not parsed."""


@check("consistency.recipe", precondition=only_if_written_by_train)
def recipe(unit: Unit) -> Iterator[CheckFinding]:
    """The recipe, read and resolved again; defaults are compared only for a record of this version."""
    if unit.manifest.facts.get("smoke") is True:
        yield not_checked("a smoke run: its recipe was made small", unit, blocking=False)
        return
    words = unit.json(OVERRIDES)
    overrides = words.get("overrides") if isinstance(words, dict) else None
    if not isinstance(overrides, list) or not all(isinstance(word, str) for word in overrides):
        raise RecordError(f"{OVERRIDES}: no list of overrides")
    # Broken bytes become signs that no recipe has, and the parser's error names the place.
    text = unit.read(RECIPE, MAX_RECIPE_BYTES).decode("utf-8", errors="replace")
    try:
        # An empty folder: no file that the recipe names is opened.
        loaded = parse_recipe(text, RECIPE, Path(), overrides)
    except RequestError as error:
        if written_by_this_version(unit) and unit.recipe is not None:
            yield failed(f"{RECIPE}: this version reads the recipe that ran, and not the one as written: "
                         f"{error.given[:120]}", unit)
            return
        yield not_checked(f"this version does not read it: {error.given[:120]}", unit, blocking=False)
        return
    resolved, written = loaded.resolved(), loaded.recipe.model_dump(mode="json", exclude_unset=True)
    if loaded.recipe.training.epochs and has_few_sequences(unit):
        # The file says how often the rows are gone through; how many steps that is follows from them.
        steps = batches_of(unit).steps_in(loaded.recipe.training.epochs)
        resolved["training"]["steps"] = written["training"]["steps"] = steps
    recorded = unit.json(CONFIG)
    # Other versions may have other defaults; written keys mean the same.
    same_version = unit.manifest.workings_version == version("workings")
    problems = list(_differences(recorded, resolved if same_version else written, "", exact=same_version))
    if isinstance(words.get("renamed"), list) and same_version and words["renamed"] != list(loaded.renamed):
        problems.append(f"{OVERRIDES}: renamed is not what the recipe's keys give")
    if not same_version and not problems:
        yield not_checked(f"defaults of {unit.manifest.workings_version[:20]}; written keys agree", unit,
                          blocking=False)
        return
    yield finding_from(problems, f"{RECIPE} and {len(overrides)} overrides", unit)


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
