"""Levels 1 and 2: the recipe as written gives the one that ran; an evaluation is the one that its run announced."""

from collections.abc import Iterator
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from workings.config.load import parse_recipe
from workings.config.recipe import Recipe
from workings.data.generators import addition
from workings.data.named_sets import SHIPPED_SETS
from workings.data.traces import items_bytes
from workings.errors import RequestError
from workings.evaluation.settings import settings_of
from workings.evidence.verify import registry
from workings.evidence.verify.checks.data_order import batches_of, has_few_sequences
from workings.evidence.verify.record import Unit, field_of
from workings.evidence.verify.registry import Found, check, contradictions, differences, not_checked, require_train
from workings.plugins import OURS
from workings.record import layout
from workings.record.digest import bytes_digest
from workings.record.values import is_absent

MAX_RECIPE_BYTES = 1 << 18
"""A recipe has a few kilobytes; a larger text is not parsed."""
KEYS_THAT_DECIDE_ANSWERS = ("model", "items", "decoding", "engine", "template")


@check("consistency.recipe")
def recipe(unit: Unit) -> Found:
    """The recipe, read and resolved again; defaults are compared only for a record of this version."""
    require_train(unit)
    if unit.manifest.facts.get("smoke") is True:
        return not_checked("a smoke run: its recipe was made small", blocking=False)
    written = unit.json_object(layout.OVERRIDES)
    overrides = written["overrides"]
    text = unit.read(layout.RECIPE, MAX_RECIPE_BYTES).decode("utf-8", errors="replace")
    # Other versions may have other defaults; written keys mean the same.
    same_version = unit.written_by_this_version
    try:
        # An empty folder: no file that the recipe names is opened.
        loaded = parse_recipe(text, layout.RECIPE, Path(), overrides)
    except RequestError as error:
        if same_version and unit.recipe is not None:
            yield (f"{layout.RECIPE}: this version reads the recipe that ran, and not the one as written: "
                   f"{error.given[:120]}")
        return not_checked(f"this version does not read it: {error.given[:120]}", blocking=False)
    expected = loaded.resolved() if same_version else loaded.recipe.model_dump(mode="json", exclude_unset=True)
    if loaded.recipe.training.epochs and has_few_sequences(unit):
        expected["training"]["steps"] = batches_of(unit).steps_in(loaded.recipe.training.epochs)
    recorded = unit.json(layout.CONFIG)
    yield from (f"{layout.CONFIG}: {place}" for place in differences(recorded, expected, common=True))
    if not same_version:
        return not_checked(f"defaults of {unit.manifest.workings_version[:20]}; written keys agree", blocking=False)
    yield from (f"{layout.CONFIG}: {key[:40]} is no key of the recipe as written"
                for key in sorted(_keys(recorded) - _keys(expected)))
    if written.get("renamed", list(loaded.renamed)) != list(loaded.renamed):
        yield f"{layout.OVERRIDES}: renamed is not what the recipe's keys give"
    return f"{layout.RECIPE} and {len(overrides)} overrides"


def _keys(value: dict[str, Any], prefix: str = "") -> set[str]:
    """Dotted keys of an object and of all objects in it: `a`, `a.b` and `c` of `{"a": {"b": 1}, "c": 2}`."""
    keys = set[str]()
    for name, inner in value.items():
        keys.add(prefix + name)
        if isinstance(inner, dict):
            keys |= _keys(inner, f"{prefix}{name}.")
    return keys


@check("consistency.recipe", when=lambda unit: unit.written_by_train)
def config(unit: Unit) -> Found:
    """Digests of evaluation data against the recipe; the event that announces the evaluation."""
    section, digests = unit.section("evaluation"), unit.manifest.data_digests
    for key, name in (("items", "items"), ("traces", "evaluation_traces")):
        is_named, has_digest = section.get(key, "none") != "none", name in digests
        if "evaluation" in unit.manifest.config and is_named != has_digest:
            yield (f"the recipe's evaluation.{key} is {str(section.get(key))[:40]!r}, and {layout.DATA_DIGESTS} has "
                   f"{'a' if has_digest else 'no'} digest of {name}")
    if unit.written_by_this_version and unit.recipe is not None:
        yield from _announcement_problems(unit, unit.recipe)
    return f"config digest {unit.manifest.config_digest[:16]}…"


def _announcement_problems(unit: Unit, recipe: Recipe) -> Iterator[str]:
    announcements = [row for row in unit.events if row.get("kind") == layout.ANNOUNCED]
    expected = int(recipe.evaluation.items != "none")
    # The first attempt of a resumed run may have been killed before it announced anything.
    if len(announcements) > expected or (len(announcements) < expected and not unit.manifest.resumes):
        yield f"{len(announcements)} events announce the evaluation of {recipe.evaluation.items[:40]!r}"
    if announcements:
        yield from contradictions(f"{layout.EVENTS}: announced", announcements[0], {
            "decoding": settings_of(recipe).decoding(), "evaluation": layout.RECIPE_EVALUATION}, "by the recipe")


@check("consistency.announced", "measurements")
def announced(unit: Unit) -> Found:
    """Items by digest, and how they were asked, against the run's recipe and its first events."""
    run, config = unit.parent, unit.json_object(layout.EVALUATION_CONFIG)
    if run is None:
        yield from _shipped_template_problems(config)
        return not_checked("it is in no run: nothing was announced", blocking=False)
    recipe = run.recipe
    is_of_recipe = run.written_by_train and unit.path_in(run) == layout.RECIPE_EVALUATION
    if recipe is None or recipe.evaluation.items == "none" or not is_of_recipe:
        if run.written_by_train:
            yield from _later_problems(run, config)
            yield from _twin_problems(unit, config)
        return not_checked("not announced before the first step: made afterwards, with freely chosen items",
                           blocking=False)
    yield from contradictions(layout.EVALUATION_CONFIG, config, _by_recipe(config, recipe), "the recipe says")
    yield from contradictions(layout.EVALUATION_CONFIG, config, _by_run(run, config), "the run's is")
    # Both are digests of a file, and not of the items in it.
    file_digest, known_digest = run.manifest.data_digests.get("items"), _known_digest(recipe)
    if known_digest and known_digest != file_digest:
        yield (f"the set {recipe.evaluation.items!r} has digest {known_digest[:16]}…, the run was given "
               f"{str(file_digest)[:16]}…")
    announcement = _announcement(run)
    if announcement is None:
        return not_checked("evaluated as the recipe says; the file of its items is not here", blocking=False)
    evaluated = {"items": config["items"], "decoding": config.get("decoding"), "evaluation": layout.RECIPE_EVALUATION}
    yield from contradictions(f"{layout.EVENTS}: announced", announcement, evaluated, "evaluated was")
    return f"{config['items']['count']} items, announced before the first step"


def _announcement(run: Unit) -> dict[str, Any] | None:
    """The first event that announces an evaluation: later ones could be written when the answers are known."""
    return next((row for row in run.events if row.get("kind") == layout.ANNOUNCED), None)


@check("recompute.items", when=lambda run: run.manifest.status == "complete" and run.recipe_evaluation is None)
def announced_is_here(run: Unit) -> Found:
    """The first events of a complete run against the evaluations in it."""
    announcement = _announcement(run)
    if announcement:
        # No failure: between its last step and its evaluation an honest run looks the same.
        count = str(field_of(announcement, "items.count"))[:20]
        yield not_checked(f"an evaluation of {count} items was announced before the first step and is not here: "
                          "removed, or not made yet")
    return None


def _by_recipe(config: dict[str, Any], recipe: Recipe) -> dict[str, Any]:
    """Settings of the evaluation that the recipe asks for, by dotted key."""
    settings = settings_of(recipe)
    expected = {"form": settings.form, "aggregate": settings.aggregate, "scorer.name": settings.scorer,
                "source": {"kind": "generated"}, "template.name": recipe.data.template,
                **{f"decoding.{name}": value for name, value in settings.decoding().items()}}
    if field_of(config, "software.workings") == version(OURS):
        # Limits have no key in a recipe: they are those of the version.
        expected |= {"limits": settings.limits(), "extraction.rules": settings.extraction()["rules"]}
    return expected


def _by_run(run: Unit, config: dict[str, Any]) -> dict[str, Any]:
    """Settings of an evaluation that follow from its run, by dotted key."""
    manifest, device = run.manifest, run.manifest.device
    expected: dict[str, Any] = {
        "engine.platform": device.platform, "engine.device": device.kind, "engine.devices": device.count,
        "software.workings": manifest.workings_version, **_template_digest(run, config)}
    if _names_a_model(config):
        expected |= {"model.run": manifest.name, "model.step": run.kept_step}
    return expected


def _names_a_model(config: dict[str, Any]) -> bool:
    model = config.get("model")
    return isinstance(model, dict) and not is_absent(model)


def _later_problems(run: Unit, config: dict[str, Any]) -> Iterator[str]:
    """What an evaluation that was made later says of its model, against the run around it: name, step and template.

    It may be of another machine and version than the training.
    """
    yield from contradictions(layout.EVALUATION_CONFIG, config, _template_digest(run, config), "the run's is")
    if not _names_a_model(config):
        return
    yield from contradictions(layout.EVALUATION_CONFIG, config, {"model.run": run.manifest.name}, "the run's is")
    step, done = field_of(config, "model.step"), run.manifest.completed_steps
    # Any checkpoint may have been evaluated, because a damaged one is skipped for an older one.
    if type(step) is not int or not 0 <= step <= done or (run.checkpoints and step not in run.checkpoints):
        yield (f"{layout.EVALUATION_CONFIG}: model.step is {str(step)[:20]}, the run took {done} and keeps "
               f"{', '.join(map(str, run.checkpoints))[:60]}")


def _twin_problems(unit: Unit, config: dict[str, Any]) -> Iterator[str]:
    """On a CPU one model answers the same items greedily with the same texts, however often it is asked."""
    if field_of(config, "engine.platform") != "cpu" or field_of(config, "decoding.temperature") != 0:
        return
    # Only of this run, because another one may differ in the last bits of its weights.
    of_same_run = [other for other in unit.record.units_of("measurements")
                   if other is not unit and other.parent is unit.parent]
    for other in of_same_run:
        twin = other.json_object(layout.EVALUATION_CONFIG)
        is_twin = not any(contradictions("", config, {key: twin.get(key) for key in KEYS_THAT_DECIDE_ANSWERS}, ""))
        if is_twin and _completions(other) != _completions(unit):
            yield f"the same model gave other answers to the same items in {other.title}"


def _completions(unit: Unit) -> list[tuple[Any, Any]]:
    return [(row.get("id"), row.get("completion")) for row in unit.lines(layout.PREDICTIONS)]


def _template_digest(run: Unit, config: dict[str, Any]) -> dict[str, str]:
    """Digest of a shipped chat template or the tokenizer's, by its field; empty if it is made for the recipe."""
    name = str(field_of(config, "template.name"))
    if run.section("data").get("reasoning") == "channel":
        return {}
    if name == "tokenizer":
        source = run.json_object(f"{layout.TOKENIZER}/tokenizer_config.json").get("chat_template")
        return {"template.digest": bytes_digest(source.encode())} if isinstance(source, str) else {}
    return _shipped_digest(name)


def _shipped_digest(name: str) -> dict[str, str]:
    """Digest of a chat template that this package ships, by its field; empty for another one."""
    shipped = files("workings.models").joinpath(f"templates/{name}.jinja")
    if name not in ("gemma", "gemma4", "plain") or not shipped.is_file():
        return {}
    # Without the last line's end, as `ChatTemplate` takes the file.
    return {"template.digest": bytes_digest(shipped.read_bytes().removesuffix(b"\n"))}


def _shipped_template_problems(config: dict[str, Any]) -> Iterator[str]:
    is_ours = registry.is_our_engine(field_of(config, "engine.name"))
    is_of_this_version = field_of(config, "software.workings") == version(OURS)
    # The template that asks Gemma 4 to think is made for the evaluation.
    if is_ours and is_of_this_version and config.get("form") != "channel":
        shipped = _shipped_digest(str(field_of(config, "template.name")))
        yield from contradictions(layout.EVALUATION_CONFIG, config, shipped, "the shipped one is")


def _known_digest(recipe: Recipe) -> str:
    """Digest of a named set of items; empty for a file."""
    name = recipe.evaluation.items
    if name == "addition":
        # As in `workings.inputs.datasets`, which this package may not import.
        return bytes_digest(items_bytes(addition.make(500, 600, recipe.seed)[1]))
    return SHIPPED_SETS[name].sha256 if name in SHIPPED_SETS else ""
