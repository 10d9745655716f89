"""Level 1: a run's README, its training log and other texts for people agree with its record.

Generated texts are generated again and compared line by line. Other lines cannot be checked: a file with some is
reported as not checked.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from workings.config.explain import GIVEN
from workings.evidence.run_readme import command_again, run_readme
from workings.evidence.verify.checks.data_order import batches_of, has_few_sequences, kept_rows, uses_pairs
from workings.evidence.verify.checks.log_lines import log_line_problems, pairs_change_sentence, read_log
from workings.evidence.verify.checks.schemas import MAX_README_BYTES
from workings.evidence.verify.checks.tensors import recorded_shape
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import (
    check,
    every_run,
    failed,
    finding_from,
    join_first,
    not_checked,
    only_if_written_by_train,
    passed,
    written_by_this_version,
)
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.rollout_inputs import rollout_inputs_of, uses_rollouts
from workings.hardware.device import DeviceFacts
from workings.hardware.memory import gib
from workings.planning.preflight import ModelFacts, preflight_lines
from workings.record.layout import ENVIRONMENT, ENVIRONMENT_TEXT, LOG, MEASURED, OVERRIDES, PLAN, PROMPTS, README, ROWS
from workings.record.memory_use import excess_sentence, memory_sentence
from workings.record.number_text import percent
from workings.record.values import Absent, text_view

TEXT_VIEWS = {ENVIRONMENT_TEXT: ENVIRONMENT}
"""Texts that `text_view` makes of a JSON file."""
OF_EVERY_ATTEMPT = ("model", "dtypes", "rate", "data")
"""Lines before the first step that are the same in every attempt at a run."""
UNKNOWN = "\0"
"""Placeholder in a line for a part that does not follow from the record."""
_STEP = re.compile(r"step (\d{1,12})/(\d{1,12})  (loss|reward|kl_teacher) (-?[\d.]+|nan|inf)"
                   r"(?:  evaluation loss ([\d.]+))?  lr ([\d.e+-]+)(?:  [\w,./ ]{1,80})?")


@check("consistency.views", level=1, title="texts for people say what their JSON says", units=every_run,
       example="another version of Python in the environment's text than in its JSON")
def texts(unit: Unit) -> Iterator[CheckFinding]:
    """Each text view made again; the README's status is the manifest's."""
    problems, compared = [], [README]
    for text, source in TEXT_VIEWS.items():
        if unit.has(text):
            value = unit.json(source)
            # Byte for byte: people read the text and programs the JSON, and a forger could change the one that is
            # not checked.
            if not isinstance(value, dict) or text_view(value).encode("utf-8") != unit.read(text):
                problems.append(f"{text} does not say what {source} says")
            compared.append(text)
    readme = unit.read(README, MAX_README_BYTES).decode("utf-8", errors="replace")
    others = {"complete", "interrupted", "failed"} - {unit.manifest.status}
    if "Status:" in readme:
        # The README sets the status in bold, so asterisks may stand before and behind it.
        status_text = readme.split("Status:", 1)[1].strip(" *")
        problems += [f"{README} says {other}, the manifest {unit.manifest.status}" for other in sorted(others)
                     if status_text.startswith(other)]
    yield finding_from(problems, ", ".join(compared), unit)


@check("consistency.readme", level=1, title="the README is the one that manifest, plan and rows give", units=every_run,
       precondition=only_if_written_by_train, example="a lower loss in the README")
def readme(unit: Unit) -> Iterator[CheckFinding]:
    """The generated README against the recorded one; other lines are named."""
    lines = unit.read(README, MAX_README_BYTES).decode("utf-8", errors="replace").splitlines()
    expected = _readme_lines(unit, lines)
    problems = [f"{README} says {recorded[:80]!r}, the record {generated.replace(UNKNOWN, '…')[:80]!r}"
                for generated in expected if (recorded := _same_subject(generated, lines)) is not None
                and not _agrees(recorded, generated)]
    # Lines of other versions are named and not refused, because their sentences may have been others.
    other_lines = [line for line in lines if line and not any(_agrees(line, generated) for generated in expected)]
    if not problems and written_by_this_version(unit):
        problems = _exact_problems(lines, expected)
    if problems:
        yield failed(join_first(problems), unit)
    elif other_lines or any(UNKNOWN in generated for generated in expected) or len(lines) < len(expected):
        yield not_checked("lines that do not follow from the record: "
                          f"{join_first([line[:60] for line in other_lines]) or 'parts of some'}", unit, blocking=False)
    else:
        yield passed(f"{len(lines)} lines, made again", unit)


def _exact_problems(there: list[str], expected: list[str]) -> list[str]:
    """The first line that is missing, changed or added, of a README that this version generates."""
    theirs, ours = ([line for line in lines if line.strip()] for lines in (there, expected))
    for one, other in zip_longest(theirs, ours):
        if one is None:
            return [f"{README} lacks {other.replace(UNKNOWN, '…')[:80]!r}"]
        if other is None or not _agrees(one, other):
            return [f"{README} has a line that this version does not write: {one[:80]!r}"]
    return []


@check("consistency.log", level=1, title="the training log's lines of steps are those of the metrics", units=every_run,
       precondition=only_if_written_by_train, example="a lower loss in a line of the training log")
def log(unit: Unit) -> Iterator[CheckFinding]:
    """Loss, rate, evaluation loss and pace of every step's line; the lines before the first step; no other lines."""
    lines = read_log(unit)
    rows = {row["step"]: row for row in unit.metrics}
    problems = [problem for line in lines if line.startswith("step ")
                for problem in _step_problems(line, rows, unit.manifest.planned_steps)]
    announced = _announced(unit)
    # Every attempt of a resumed run has announced itself, and its devices need not be those of the last.
    begins = [number for number, line in enumerate(lines) if line.startswith("device ")]
    for number, line in enumerate(lines):
        subject = line[:11]
        # A run is resumed with its own model, rate and data, perhaps elsewhere and on other devices.
        if begins and number < begins[-1] and subject.strip() not in OF_EVERY_ATTEMPT:
            continue
        # Earlier versions had other words for the data, without the digest of the rows.
        if subject.startswith("data") and "; rows " not in line and not uses_rollouts(unit):
            continue
        if subject in announced and not _agrees(line, announced[subject]):
            problems.append(f"{LOG} says {line[:80]!r}, the record {announced[subject][:80]!r}")
    if written_by_this_version(unit):
        problems += log_line_problems(unit, lines, announced)
    count = sum(line.startswith("step ") for line in lines)
    if unit.manifest.completed_steps and not count:
        problems.append(f"{LOG} tells of no step")
    yield finding_from(problems, f"{count} lines of steps", unit)


def _step_problems(line: str, rows: Mapping[int, Mapping[str, Any]], planned: int) -> list[str]:
    match = _STEP.fullmatch(line)
    if match is None:
        return [f"{LOG}: not a line of a step: {line[:60]!r}"]
    step, steps, goal, value, evaluation, rate = match.groups()
    row = rows.get(int(step))
    if row is None:
        return []  # of an attempt whose last steps were repeated
    name = next((name for name in ("reward", "kl_teacher") if name in row), "loss")
    pairs = [("of", steps, str(planned)), ("goal", goal, name),
             (name, value, f"{row[name]:.4f}" if name == "loss" else f"{row[name]:.3f}"),
             ("lr", rate, f"{row['learning_rate']:.3g}"),
             ("evaluation loss", evaluation or "", f"{row['evaluation_loss']:.4f}" if "evaluation_loss" in row else "")]
    return [f"{LOG}, step {step}: {key} {logged}, the metrics have {expected or 'none'}" for key, logged,
            expected in pairs
            if logged != expected]


def _announced(unit: Unit) -> dict[str, str]:
    """Lines before the first step that follow from the record, by their first word with its spaces."""
    manifest, shape = unit.manifest, recorded_shape(unit)
    if isinstance(shape, str):
        return {}
    device, plan = manifest.actual_device, unit.json(PLAN)
    revision = manifest.model_revision
    if (recipe := unit.recipe) is None:
        return {}
    lines = preflight_lines(
        recipe=recipe, data=_data_sentence(unit),
        model=ModelFacts(id=manifest.model_id, revision=UNKNOWN if isinstance(revision, Absent) else revision,
                         shape=shape, parameters=manifest.parameters),
        data_digests={name: manifest.data_digests[name] for name in ("rows", "prompts", "rewards", "teacher")
                      if name in manifest.data_digests},
        memory=str(plan["reasons"][0]), out=Path(UNKNOWN),
        device=DeviceFacts(platform=device.platform, kind=device.kind, count=device.count, reason=device.reason,
                           memory_limit_bytes=manifest.memory_limit_bytes, versions={}, mesh=dict(manifest.mesh),
                           memory_limit_source=manifest.memory_limit_source))
    # No file has all versions, and only the run's folder says where it was written.
    checked = ("device", "model", "dtypes", "mesh", "batch", "rate", "data", "memory")
    # The first word of such a line is filled up to eleven characters.
    return {line[:11]: line for line in lines if line.split()[0] in checked}


def _readme_lines(unit: Unit, recorded_lines: list[str]) -> list[str]:
    manifest = unit.manifest
    words, measured = unit.json_object(OVERRIDES), unit.json(MEASURED) if unit.has(MEASURED) else None
    rewards = [row["reward"] for row in unit.metrics if "reward" in row]
    result: tuple[float, float] | str | None = (rewards[0], rewards[-1]) if rewards else None
    if uses_pairs(unit):
        result = pairs_change_sentence(unit) or None
    # Earlier versions did not write down where the recipe stood.
    command = UNKNOWN if words.get("base", UNKNOWN) == UNKNOWN else command_again(
        {**words, "origin": _origin(unit, words)}, manifest)
    memory = UNKNOWN if not isinstance(measured, dict) else memory_sentence(measured)
    if isinstance(measured, dict) and any(line.startswith("- Memory: predicted") for line in recorded_lines):
        memory = _earlier_memory_sentence(measured)
    # Development versions of 0.1.0 did not say it.
    says = any(line.startswith("- Over plan:") for line in recorded_lines)
    over_plan = excess_sentence(measured) if says and isinstance(measured, dict) else ""
    text = run_readme(manifest, data=_data_sentence(unit), command=command, learned=result, memory=memory,
                      over_plan=over_plan)
    return text.splitlines()


def _earlier_memory_sentence(facts: Mapping[str, Any]) -> str:
    """Memory sentence of earlier READMEs, which begins with "predicted"."""
    grown = facts.get("growth_bytes", facts["measured_peak_bytes"])
    happened = gib(grown) if isinstance(grown, int) else f"at most {gib(facts['measured_peak_bytes'])}"
    ran_out = isinstance(facts["out_of_memory"], str)
    return (f"predicted {gib(facts['predicted_peak_bytes'])} a device ({facts['predicted_source']}), "
            + (f"{happened} were held when memory ran out" if ran_out else f"measured {happened}")
            + f", limit {gib(facts['limit_bytes'])}")


def _origin(unit: Unit, words: Mapping[str, Any]) -> str:
    """The file's name, or `shipped:NAME`, of which the overrides keep the last part."""
    origin = str(words.get("origin"))
    is_full_name = origin == GIVEN or origin.endswith((".yaml", ".yml")) or origin.startswith("shipped:")
    return origin if is_full_name else f"shipped:{origin}"


def _data_sentence(unit: Unit) -> str:
    """The sentence of the training data; `UNKNOWN` where it would take too long to compute."""
    if uses_rollouts(unit):
        return _prompts_sentence(unit)
    if not has_few_sequences(unit):
        return UNKNOWN
    rows = kept_rows(unit)
    dropped = sum(row.get("status") == "dropped" for row in unit.lines(ROWS))
    turns = sum(len(row.get("learned_turns", (0,))) for row in rows)
    supervised = sum(row["supervised_tokens"] for row in rows)
    sentence = (f"{len(rows):,} rows, {dropped:,} dropped, {supervised:,} supervised tokens an epoch"
                f"{f' in {turns:,} turns of the assistant' if turns > len(rows) else ''}, "
                f"{percent(batches_of(unit).padding_share())} padding in epoch 0")
    return f"{len(rows) // 2:,} pairs: {sentence}" if uses_pairs(unit) else sentence


def _prompts_sentence(unit: Unit) -> str:
    """Prompts, dropped ones, and the number of completions of each in a rollout."""
    rows, inputs = unit.lines(PROMPTS), rollout_inputs_of(unit)
    dropped = sum(row.get("status") == "dropped" for row in rows)
    group = inputs.algorithm.group
    return (f"{len(rows) - dropped:,} prompts, {dropped:,} dropped; a rollout samples {group} completions of each of "
            f"{inputs.shape.completions // group:,}")


def _same_subject(generated: str, lines: list[str]) -> str | None:
    """The README's line about the same subject: it begins with the same words."""
    begin = re.match(r"- [A-Z]\w+(?::| on| by)|Status:|# Run|    workings train", generated)
    return None if begin is None else next((line for line in lines if line.startswith(begin.group(0))), None)


def _agrees(recorded: str, generated: str) -> bool:
    """Whether a line equals the generated one, apart from its placeholders."""
    # Earlier versions wrote the data without the tokens of an epoch.
    parts = [re.escape(part) for part in generated.replace(f"; {UNKNOWN}", UNKNOWN).split(UNKNOWN)]
    # Development versions of 0.1.0 had another word for the same, and no space before the sign.
    pattern = ".*".join(parts).replace("a\\ rollout\\ samples", r"a\ rollout\ (?:samples|draws)")
    pattern = pattern.replace("\\ %\\ padding", r"\ ?%\ padding")
    pattern = re.sub(r",\\ [\d,]+\\ supervised\\ tokens\\ an\\ epoch", lambda match: f"(?:{match.group(0)})?", pattern)
    return re.fullmatch(pattern, recorded) is not None
