"""Levels 1 and 2: an evaluation is the one that its run announced before its first step, and it is here."""

import re
from collections.abc import Iterator
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from workings.config.recipe import Recipe
from workings.errors import RecordError
from workings.evidence.verify.checks.evaluation_lines import asked_our_engine, stated_problems
from workings.evidence.verify.learning import best_of
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import (
    check,
    differing,
    every_evaluation,
    failed,
    finding_from,
    join_first,
    not_checked,
    passed,
    same_json,
    section_of,
)
from workings.evidence.verify.result import CheckFinding
from workings.record.digest import bytes_digest
from workings.record.layout import (
    ANNOUNCED,
    CHECKPOINTS,
    EVALUATION_CONFIG,
    EVALUATION_SUMMARY,
    PREDICTIONS,
    RECIPE_EVALUATION,
    TOKENIZER,
)
from workings.record.values import is_absent

_CHECKPOINT = re.compile(rf"{CHECKPOINTS}/step_(\d{{1,12}})/")
KEYS_THAT_DECIDE_ANSWERS = ("model", "items", "decoding", "engine", "template")
"""Keys of an evaluation that decide its answers."""


@check("consistency.announced", lambda record: record.measurements)
def announced(unit: Unit) -> Iterator[CheckFinding]:
    """Items by digest, and how they were asked, against the run's recipe and its first events."""
    run = unit.parent
    if run is None:
        config = unit.json_object(EVALUATION_CONFIG)
        problem = _shipped_template_problem(config)
        yield failed(problem, unit) if problem else not_checked(
            "it is in no run: nothing was announced", unit, blocking=False)
        return
    recipe, announcement = run.recipe, _announcement(run)
    name = unit.path[len(run.path):].lstrip("/")
    config = unit.json_object(EVALUATION_CONFIG)
    # Only the evaluation of the recipe is announced; others are compared as far as they name this run.
    if name != RECIPE_EVALUATION or recipe is None or recipe.evaluation.items == "none" or not run.written_by_train:
        if run.written_by_train and (problems := [*_later_problems(run, config), *_twin_problems(unit, config)]):
            yield failed(join_first(problems), unit)
        else:
            yield not_checked("not announced before the first step: made afterwards, with freely chosen items",
                              unit, blocking=False)
        return
    problems = [*_settings_problems(config, recipe), *_model_problems(run, config)]
    linked, item_problems = _item_problems(run, unit, config, announcement, recipe)
    problems += item_problems
    if problems:
        yield failed(join_first(problems), unit)
    elif not linked:
        yield not_checked("evaluated as the recipe says; the file of its items is not here",
                          unit, blocking=False)
    else:
        yield passed(f"{config['items']['count']} items, {linked}", unit)


def _announcement(run: Unit) -> dict[str, Any] | None:
    """The first event that announces an evaluation: later ones could be written when the answers are known."""
    return next((row for row in run.events if row.get("kind") == ANNOUNCED), None)


def _announced_and_missing(run: Unit) -> bool:
    return (run.manifest.status == "complete" and run.recipe_evaluation is None
            and _announcement(run) is not None)


@check("recompute.items", when=_announced_and_missing)
def announced_is_here(run: Unit) -> Iterator[CheckFinding]:
    """The first events of a complete run against the evaluations in it."""
    # No failure: between its last step and its evaluation an honest run looks the same.
    items = section_of(_announcement(run) or {}, "items").get("count")
    yield not_checked(f"an evaluation of {str(items)[:20]} items was announced before the first step and is not here: "
                      "removed, or not made yet", run)


@check("consistency.answers", every_evaluation)
def answers(unit: Unit) -> Iterator[CheckFinding]:
    """Truncated exactly at the limit, empty exactly without text, no completion of the model missing; settings."""
    config = unit.json_object(EVALUATION_CONFIG)
    generated = config.get("source") == {"kind": "generated"}
    limit = section_of(config, "decoding").get("max_new_tokens")
    problems = [f"{str(row.get('id'))[:60]}: {problem}" for row in unit.lines(PREDICTIONS)
                for problem in _line_problems(row, generated, limit)]
    problems += stated_problems(unit, config)
    if generated and unit.json_object(EVALUATION_SUMMARY).get("problems"):
        problems.append(f"{EVALUATION_SUMMARY} names problems of a file of predictions, and none exists")
    yield finding_from(problems, f"{len(unit.lines(PREDICTIONS))} lines", unit)


def _line_problems(row: dict[str, Any], generated: bool, limit: Any) -> Iterator[str]:
    text, reason, tokens = row.get("completion"), row.get("finish_reason"), row.get("completion_tokens")
    # `is`, because 1 and true are two values in a record.
    if "truncated" in row and row["truncated"] is not (reason == "length"):
        yield f"truncated is {row['truncated']}, it ended by {str(reason)[:20]!r}"
    if "empty" in row and row["empty"] is not (isinstance(text, str) and not text.strip()):
        yield f"empty is {row['empty']}"
    if not generated:
        return
    if not isinstance(text, str):
        yield "no completion, although a model wrote it"
    if reason not in ("stop", "length"):
        yield f"it ended by {str(reason)[:20]!r}"
    # A model that is asked beyond its context ends below the limit.
    if type(tokens) is not int or tokens < 0 or (type(limit) is int and tokens > limit):
        yield f"{str(tokens)[:20]} tokens, at most {limit} were asked for"


def _settings_problems(config: dict[str, Any], recipe: Recipe) -> list[str]:
    """Problems of decoding and scoring, compared with the recipe's section."""
    from workings.evaluation.settings import settings_of
    settings = settings_of(recipe)
    expected: list[tuple[str, Any, Any]] = [
        ("form", config.get("form"), settings.form), ("aggregate", config.get("aggregate"), settings.aggregate),
        ("scorer", section_of(config, "scorer").get("name"), settings.scorer),
        ("source", config.get("source"), {"kind": "generated"}),
        ("template", section_of(config, "template").get("name"), recipe.data.template)]
    decoding = config.get("decoding")
    # A section of another type has no keys: each is then reported as missing.
    expected += [(name, (decoding if isinstance(decoding, dict) else {}).get(name), value)
                 for name, value in settings.decoding().items()]
    # Limits have no key in a recipe: they are those of the version.
    if section_of(config, "software").get("workings") == version("workings"):
        expected += [("limits", config.get("limits"), settings.limits()),
                     ("rules", section_of(config, "extraction").get("rules"), settings.extraction()["rules"])]
    return [f"{EVALUATION_CONFIG}: {problem}" for problem in differing(expected, "the recipe says")]


def _model_problems(run: Unit, config: dict[str, Any]) -> list[str]:
    """Problems of device, version, template and step, compared with the run."""
    manifest, device = run.manifest, run.manifest.device
    engine, model = section_of(config, "engine"), config.get("model")
    pairs = [("engine.platform", engine.get("platform"), device.platform),
             ("engine.device", engine.get("device"), device.kind),
             ("engine.devices", engine.get("devices"), device.count),
             ("software.workings", section_of(config, "software").get("workings"), manifest.workings_version)]
    if isinstance(model, dict) and not is_absent(model):
        best = best_of(run)
        pairs += [("model.run", model.get("run"), manifest.name),
                  ("model.step", model.get("step"), manifest.completed_steps if best is None else best.step)]
    template = _template_digest(run, str(section_of(config, "template").get("name")))
    if template:
        pairs.append(("template.digest", section_of(config, "template").get("digest"), template))
    return [f"{EVALUATION_CONFIG}: {problem}" for problem in differing(pairs, "the run's is")]


def _later_problems(run: Unit, config: dict[str, Any]) -> list[str]:
    """What an evaluation that was made later says of its model, against the run around it: name, step and template.

    The machine and the version may be others than those that trained.
    """
    model, template = config.get("model"), section_of(config, "template")
    problems = []
    if isinstance(model, dict) and not is_absent(model):
        name, step = model.get("run"), model.get("step")
        # A damaged checkpoint is skipped for an older one, so any of them may have been evaluated.
        checkpoints = {int(match[1]) for file in run.files if (match := _CHECKPOINT.match(file))}
        if name != run.manifest.name:
            problems.append(f"{EVALUATION_CONFIG}: model.run is {str(name)[:40]!r}, the run's is {run.manifest.name!r}")
        # `type`, because a boolean is an integer for `isinstance`.
        if type(step) is not int or not 0 <= step <= run.manifest.completed_steps or (
                checkpoints and step not in checkpoints):
            problems.append(f"{EVALUATION_CONFIG}: model.step is {str(step)[:20]}, the run took "
                            f"{run.manifest.completed_steps} and keeps {str(sorted(checkpoints))[1:60]}")
    digest = _template_digest(run, str(template.get("name")))
    if digest and digest != template.get("digest"):
        problems.append(f"{EVALUATION_CONFIG}: the template {template.get('name')} has another digest")
    return problems


def _twin_problems(unit: Unit, config: dict[str, Any]) -> list[str]:
    """On a CPU one model answers the same items greedily with the same texts, however often it is asked."""
    engine = section_of(config, "engine")
    if engine.get("platform") != "cpu" or section_of(config, "decoding").get("temperature") != 0:
        return []
    # Of the same run: two runs may differ in their last bits.
    others = [other for other in unit.record.measurements if other is not unit and other.parent is unit.parent]
    for other in others:
        twin = other.json_object(EVALUATION_CONFIG)
        if all(same_json(config.get(key), twin.get(key)) for key in KEYS_THAT_DECIDE_ANSWERS):
            texts = [[(row.get("id"), row.get("completion")) for row in each.lines(PREDICTIONS)]
                     for each in (unit, other)]
            if texts[0] != texts[1]:
                return [f"the same model gave other answers to the same items in {other.title}"]
    return []


def _template_digest(run: Unit, name: str) -> str:
    """Digest of a shipped chat template or the tokenizer's; empty if it is made for the recipe."""
    section = run.manifest.config.get("data")
    if not isinstance(section, dict) or section.get("reasoning") == "channel":
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


def _shipped_template_problem(config: dict[str, Any]) -> str:
    """Contradictions between an evaluation of weights and a shipped template; empty if none."""
    template = section_of(config, "template")
    shipped = _shipped_digest(str(template.get("name")))
    ours = asked_our_engine(config) and section_of(config, "software").get("workings") == version("workings")
    # The template that asks Gemma 4 to think is made for the evaluation.
    if not ours or not shipped or config.get("form") == "channel" or template.get("digest") == shipped:
        return ""
    return (f"{EVALUATION_CONFIG}: the template {template['name']} has digest {str(template.get('digest'))[:16]}…, "
            f"the shipped one {shipped[:16]}…")


def _item_problems(run: Unit, unit: Unit, config: dict[str, Any], announcement: dict[str, Any] | None,
                   recipe: Recipe) -> tuple[str, list[str]]:
    """How the items are known, and their problems."""
    items = config.get("items")
    if not isinstance(items, dict):
        raise RecordError(f"{unit.tree_path(EVALUATION_CONFIG)}: no items")
    # The digest of the file's bytes, which differs from that of the items in it.
    file_digest = run.manifest.data_digests.get("items")
    known_digest = _known_digest(recipe)
    problems = [f"the set {recipe.evaluation.items!r} has digest {known_digest[:16]}…, "
                f"the run was given {str(file_digest)[:16]}…"] if known_digest and known_digest != file_digest else []
    if announcement is not None:
        announced_items = announcement.get("items")
        problems += [] if same_json(announced_items, items) else [
            f"{str(items)[:80]} were asked, {str(announced_items)[:80]} were announced"]
        same_decoding = same_json(announcement.get("decoding"), config.get("decoding"))
        problems += [] if same_decoding else ["asked in another way than announced"]
        problems += [] if announcement.get("evaluation") == RECIPE_EVALUATION else ["announced for another place"]
        return "announced before the first step", problems
    return "", problems


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
