"""Levels 1 and 2: an evaluation is the one that its run announced before its first step, and it is here."""

from collections.abc import Iterator
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from workings.config.recipe import Recipe
from workings.errors import RecordError
from workings.evidence.verify.checks.evaluation_lines import asked_our_engine
from workings.evidence.verify.record import Unit, section_of
from workings.evidence.verify.registry import Found, check, differing, not_checked, same_json
from workings.plugins import OURS
from workings.record.digest import bytes_digest
from workings.record.layout import ANNOUNCED, EVALUATION_CONFIG, PREDICTIONS, RECIPE_EVALUATION, TOKENIZER
from workings.record.values import is_absent

KEYS_THAT_DECIDE_ANSWERS = ("model", "items", "decoding", "engine", "template")
"""Keys of an evaluation that decide its answers."""


@check("consistency.announced", "measurements")
def announced(unit: Unit) -> Found:
    """Items by digest, and how they were asked, against the run's recipe and its first events."""
    run, config = unit.parent, unit.json_object(EVALUATION_CONFIG)
    if run is None:
        yield from _shipped_template_problems(config)
        return not_checked("it is in no run: nothing was announced", blocking=False)
    recipe, announcement = run.recipe, _announcement(run)
    # Only the evaluation of the recipe is announced; others are compared as far as they name this run.
    if unit.path_in(run) != RECIPE_EVALUATION or recipe is None or recipe.evaluation.items == "none" \
            or not run.written_by_train:
        if run.written_by_train:
            yield from _later_problems(run, config)
            yield from _twin_problems(unit, config)
        return not_checked("not announced before the first step: made afterwards, with freely chosen items",
                           blocking=False)
    yield from _settings_problems(config, recipe)
    yield from _model_problems(run, config)
    yield from _item_problems(run, unit, config, announcement, recipe)
    if announcement is None:
        return not_checked("evaluated as the recipe says; the file of its items is not here", blocking=False)
    return f"{config['items']['count']} items, announced before the first step"


def _announcement(run: Unit) -> dict[str, Any] | None:
    """The first event that announces an evaluation: later ones could be written when the answers are known."""
    return next((row for row in run.events if row.get("kind") == ANNOUNCED), None)


def _announced_and_missing(run: Unit) -> bool:
    return (run.manifest.status == "complete" and run.recipe_evaluation is None
            and _announcement(run) is not None)


@check("recompute.items", when=_announced_and_missing)
def announced_is_here(run: Unit) -> Found:
    """The first events of a complete run against the evaluations in it."""
    # No failure: between its last step and its evaluation an honest run looks the same.
    items = section_of(_announcement(run) or {}, "items").get("count")
    yield not_checked(f"an evaluation of {str(items)[:20]} items was announced before the first step and is not here: "
                      "removed, or not made yet")
    return None


def _settings_problems(config: dict[str, Any], recipe: Recipe) -> Iterator[str]:
    """Problems of decoding and scoring, compared with the recipe's section."""
    from workings.evaluation.settings import settings_of
    settings = settings_of(recipe)
    expected: list[tuple[str, Any, Any]] = [
        ("form", config.get("form"), settings.form), ("aggregate", config.get("aggregate"), settings.aggregate),
        ("scorer", section_of(config, "scorer").get("name"), settings.scorer),
        ("source", config.get("source"), {"kind": "generated"}),
        ("template", section_of(config, "template").get("name"), recipe.data.template)]
    expected += [(name, section_of(config, "decoding").get(name), value)
                 for name, value in settings.decoding().items()]
    # Limits have no key in a recipe: they are those of the version.
    if section_of(config, "software").get("workings") == version(OURS):
        expected += [("limits", config.get("limits"), settings.limits()),
                     ("rules", section_of(config, "extraction").get("rules"), settings.extraction()["rules"])]
    yield from (f"{EVALUATION_CONFIG}: {problem}" for problem in differing(expected, "the recipe says"))


def _model_problems(run: Unit, config: dict[str, Any]) -> Iterator[str]:
    """Problems of device, version, template and step, compared with the run."""
    manifest, device = run.manifest, run.manifest.device
    engine, model = section_of(config, "engine"), config.get("model")
    pairs = [("engine.platform", engine.get("platform"), device.platform),
             ("engine.device", engine.get("device"), device.kind),
             ("engine.devices", engine.get("devices"), device.count),
             ("software.workings", section_of(config, "software").get("workings"), manifest.workings_version)]
    if isinstance(model, dict) and not is_absent(model):
        pairs += [("model.run", model.get("run"), manifest.name), ("model.step", model.get("step"), run.kept_step)]
    template = _template_digest(run, str(section_of(config, "template").get("name")))
    if template:
        pairs.append(("template.digest", section_of(config, "template").get("digest"), template))
    yield from (f"{EVALUATION_CONFIG}: {problem}" for problem in differing(pairs, "the run's is"))


def _later_problems(run: Unit, config: dict[str, Any]) -> Iterator[str]:
    """What an evaluation that was made later says of its model, against the run around it: name, step and template.

    The machine and the version may be others than those that trained.
    """
    model, template = config.get("model"), section_of(config, "template")
    if isinstance(model, dict) and not is_absent(model):
        name, step = model.get("run"), model.get("step")
        if name != run.manifest.name:
            yield f"{EVALUATION_CONFIG}: model.run is {str(name)[:40]!r}, the run's is {run.manifest.name!r}"
        # A damaged checkpoint is skipped for an older one, so any of them may have been evaluated.
        # `type`, because a boolean is an integer for `isinstance`.
        if type(step) is not int or not 0 <= step <= run.manifest.completed_steps or (
                run.checkpoints and step not in run.checkpoints):
            yield (f"{EVALUATION_CONFIG}: model.step is {str(step)[:20]}, the run took {run.manifest.completed_steps} "
                   f"and keeps {str([*run.checkpoints])[1:60]}")
    digest = _template_digest(run, str(template.get("name")))
    if digest and digest != template.get("digest"):
        yield f"{EVALUATION_CONFIG}: the template {template.get('name')} has another digest"


def _twin_problems(unit: Unit, config: dict[str, Any]) -> Iterator[str]:
    """On a CPU one model answers the same items greedily with the same texts, however often it is asked."""
    if section_of(config, "engine").get("platform") != "cpu" or section_of(config, "decoding").get("temperature") != 0:
        return
    # Of the same run: two runs may differ in their last bits.
    for other in unit.record.measurements:
        if other is unit or other.parent is not unit.parent:
            continue
        twin = other.json_object(EVALUATION_CONFIG)
        if all(same_json(config.get(key), twin.get(key)) for key in KEYS_THAT_DECIDE_ANSWERS):
            ours, theirs = ([(row.get("id"), row.get("completion")) for row in each.lines(PREDICTIONS)]
                            for each in (unit, other))
            if ours != theirs:
                yield f"the same model gave other answers to the same items in {other.title}"


def _template_digest(run: Unit, name: str) -> str:
    """Digest of a shipped chat template or the tokenizer's; empty if it is made for the recipe."""
    if run.section("data").get("reasoning") == "channel":
        return ""
    if name == "tokenizer":
        source = run.json_object(f"{TOKENIZER}/tokenizer_config.json").get("chat_template")
        # Several named templates are a list, which is not supported here.
        return bytes_digest(source.encode()) if isinstance(source, str) else ""
    return _shipped_digest(name)


def _shipped_digest(name: str) -> str:
    """Digest of a chat template that this package ships; empty for another one."""
    shipped = files("workings.models").joinpath(f"templates/{name}.jinja")
    if name not in ("gemma", "gemma4", "plain") or not shipped.is_file():
        return ""
    # Without the last line's end, as `ChatTemplate` takes the file.
    return bytes_digest(shipped.read_bytes().removesuffix(b"\n"))


def _shipped_template_problems(config: dict[str, Any]) -> Iterator[str]:
    """Contradictions between an evaluation of weights and a shipped template."""
    template = section_of(config, "template")
    shipped = _shipped_digest(str(template.get("name")))
    ours = asked_our_engine(config) and section_of(config, "software").get("workings") == version(OURS)
    # The template that asks Gemma 4 to think is made for the evaluation.
    if ours and shipped and config.get("form") != "channel" and template.get("digest") != shipped:
        yield (f"{EVALUATION_CONFIG}: the template {template['name']} has digest {str(template.get('digest'))[:16]}…, "
               f"the shipped one {shipped[:16]}…")


def _item_problems(run: Unit, unit: Unit, config: dict[str, Any], announcement: dict[str, Any] | None,
                   recipe: Recipe) -> Iterator[str]:
    items = config.get("items")
    if not isinstance(items, dict):
        raise RecordError(f"{unit.tree_path(EVALUATION_CONFIG)}: no items")
    # The digest of the file's bytes, which differs from that of the items in it.
    file_digest, known_digest = run.manifest.data_digests.get("items"), _known_digest(recipe)
    if known_digest and known_digest != file_digest:
        yield (f"the set {recipe.evaluation.items!r} has digest {known_digest[:16]}…, the run was given "
               f"{str(file_digest)[:16]}…")
    if announcement is None:
        return
    if not same_json(announcement.get("items"), items):
        yield f"{str(items)[:80]} were asked, {str(announcement.get('items'))[:80]} were announced"
    if not same_json(announcement.get("decoding"), config.get("decoding")):
        yield "asked in another way than announced"
    if announcement.get("evaluation") != RECIPE_EVALUATION:
        yield "announced for another place"


def _known_digest(recipe: Recipe) -> str:
    """Digest of a named set of items; empty for a file."""
    from workings.data.generators import addition
    from workings.data.generators.base import items_bytes
    from workings.data.named_sets import shipped_sets
    name = recipe.evaluation.items
    if name == "addition":
        # As in `workings.inputs.datasets`, which this package may not import.
        return bytes_digest(items_bytes(addition.make(500, 600, recipe.seed)[1]))
    return shipped_sets()[name].sha256 if name in shipped_sets() else ""
