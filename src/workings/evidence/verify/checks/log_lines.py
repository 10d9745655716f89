"""Lines of a training log beside the numbers of its steps: the forms that `workings train` writes, and their sources.

A log has one part for each attempt at the run. Of earlier attempts, which were killed, the forms and the pace of the
steps that still count are looked at; the last one is compared with plan, environment, metrics and manifest.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePath
from typing import Any

from workings.errors import RecordError
from workings.evaluation.comparison.preference_change import preference_change
from workings.evidence.verify.checks.environment import same_version
from workings.evidence.verify.checks.run_events import moves_of, resumes_of
from workings.evidence.verify.record import Unit
from workings.models.unproven import unproven_sentence
from workings.record.layout import DOCTOR, ENVIRONMENT, EVALUATION_CONFIG, LOG, MEASURED, OVERRIDES, PREDICTIONS
from workings.record.manifest import LEFT_ASIDE
from workings.record.memory_use import excess_sentence
from workings.record.pace import WINDOW, Pace, has_log_line, pace
from workings.record.redact import REDACTED

STEP, SAMPLE = "step ", "sample after step "
PREAMBLE = ("device     ", "engine     ", "model      ", "not proven ", "dtypes     ", "mesh       ", "batch      ",
            "rate       ", "data       ", "learned    ", "memory     ", "writing    ", "leak       ", "left aside ",
             "doctor     ", "empty      ", "turns      ", "renamed    ", "chosen     ", "time       ", "resume     ",
             "curves     ")
"""Beginnings of the lines before the first step, in their order."""
ONCE = tuple(begin for begin in PREAMBLE if begin not in (
    "not proven ", "learned    ", "leak       ", "left aside ", "doctor     ", "empty      ", "turns      ",
    "renamed    ", "chosen     ", "time       ", "resume     "))
"""Those that every attempt has once."""
BODY = (STEP, SAMPLE, "tensorboard files ", "the load of the machine is not recorded any more: ")
ENDS = ("held out   ", "pairs      ", "over plan  ")
_CURVES = re.compile(r"curves     (?:no files for TensorBoard: .+|(?P<folder>.+) \(TensorBoard\))")
_RESUME = re.compile(r"resume     after step (\d{1,12})")
_SAMPLE = re.compile(r"sample after step (\d{1,12}): .+ -> .+ \(\w+\)")
_NUMBER = re.compile(r"step (\d{1,12})/")
BACKENDS = {"cpu": "cpu", "cuda": "gpu", "gpu": "gpu", "rocm": "gpu", "tpu": "tpu"}
"""First words of what a library calls its devices -> platform."""
MAX_SAMPLE_TOKENS = 128
"""Longest answer of which it is expected that rounding decides between no two tokens of it."""
MAX_LOG_BYTES = 16 << 20
"""Largest training log that is read."""
LAST_BITS = 1e-12
"""Relative difference between two orders of adding up the same seconds."""


@dataclass(frozen=True, kw_only=True)
class _Attempt:
    """The lines of one attempt at the run."""

    lines: tuple[str, ...]
    start: int
    """Step after which it went on; 0 for one that began."""
    valid: int
    """Last of its steps that counts: later ones were taken again by the next attempt."""
    is_last: bool

    def with_beginning(self, begin: str) -> list[str]:
        """Its lines that begin so."""
        return [line for line in self.lines if line.startswith(begin)]


def log_line_problems(unit: Unit, lines: Sequence[str], announced: Mapping[str, str]) -> list[str]:
    """What lines say that no attempt at this run would have written.

    Args:
        unit: a run that this version wrote.
        lines: of its log.
        announced: lines before the first step that follow from the record, by their first eleven characters.
    """
    attempts = _attempts(unit, lines)
    problems = []
    if len(attempts) > unit.manifest.resumes + 1:
        problems.append(f"{LOG} tells of {len(attempts)} attempts, the manifest of {unit.manifest.resumes} resumes")
    # Fewer are possible: an attempt may be killed before it writes its first line.
    resumes = sum(line.startswith("resume     ") for line in lines)
    if resumes > unit.manifest.resumes:
        problems.append(f"{LOG} tells of {resumes} resumes, the manifest of {unit.manifest.resumes}")
    # Of an earlier attempt that was killed at once the log may have no line.
    start: dict[str, Any] = unit.starts[-1] if unit.starts else {}
    if attempts and start.get("kind") == "resumed" and start.get("from_step") != attempts[-1].start:
        problems.append(f"{LOG} resumes after step {attempts[-1].start}, the events after {start.get('from_step')}")
    problems += _resume_problems(unit, attempts)
    for attempt in attempts:
        problems += _form_problems(attempt)
        problems += _pace_problems(unit, attempt)
    if attempts:
        problems += _expected_problems(unit, attempts[-1], announced)
        problems += _sample_problems(unit, attempts[-1])
    return problems


def _resume_problems(unit: Unit, attempts: Sequence[_Attempt]) -> Iterator[str]:
    """The last step of each attempt, and its mesh and the next one's, against the event of the resume between them."""
    resumes = resumes_of(unit)
    # An attempt that was killed at once may have left no line.
    if len(attempts) != len(resumes) + 1:
        return
    meshes = [attempt.with_beginning("mesh       ") for attempt in attempts]
    for attempt, row in zip(attempts, resumes, strict=False):
        last = max((int(match[1]) for line in attempt.lines if (match := _NUMBER.match(line))), default=0)
        kept, dropped = row.get("from_step"), row.get("dropped_steps")
        # The line of the metrics may be written after that of the log, by two steps.
        if type(kept) is int and type(dropped) is int and last > kept + dropped + 2:
            yield f"{LOG} has step {last} before it goes on after step {kept}, and {dropped} steps were dropped"
    for (before, after), row in zip(pairwise(meshes), resumes, strict=True):
        told = any(text.startswith("mesh: ") for text in moves_of(row))
        if before and after and told is (before == after):
            yield (f"{LOG} has {str(before)[:60]}, then {str(after)[:60]}, and the event of the resume tells of "
                   f"{'a' if told else 'no'} move")


def engine_line_problems(unit: Unit, line: str) -> Iterator[str]:
    """Versions in the line of the engine against the packages of the environment and the platform."""
    packages = unit.json_object(ENVIRONMENT).get("packages")
    name, versions = _engine_and_versions(line)
    if name != unit.manifest.engine:
        yield f"{LOG} has engine {name[:40]!r}, the manifest {unit.manifest.engine!r}"
    for library, _, version in (part.partition(" ") for part in versions):
        # Libraries that are no packages, such as drivers, stand in the log alone.
        if isinstance(packages, dict) and library in packages and not same_version(packages[library], version):
            yield f"{LOG} has {library[:40]} {version[:40]}, {ENVIRONMENT} {str(packages[library])[:40]}"
        if library == "backend" and not backend_agrees(version, unit.manifest.actual_device.platform):
            yield f"{LOG} has backend {version[:40]!r}, the run took place on {unit.manifest.actual_device.platform}"


def logged_libraries(unit: Unit) -> set[str]:
    """Libraries of the engine whose versions the training log names, in its last attempt; none without such a line."""
    found = [line for line in read_log(unit) if line.startswith("engine     ")] if unit.has(LOG) else []
    return {part.partition(" ")[0] for part in _engine_and_versions(found[-1])[1] if part} if found else set()


def _engine_and_versions(line: str) -> tuple[str, list[str]]:
    """Name of the engine, and each of its libraries with its version (`jax 0.10.2`), in the line of the engine."""
    name, _, versions = line.removeprefix("engine     ").partition("  ")
    return name, versions.split(", ")


def read_log(unit: Unit) -> list[str]:
    """Lines of the training log. Raises `RecordError` where it is missing, or has more than `MAX_LOG_BYTES`."""
    # Not cached: a large log of short lines takes many times its bytes, and only two checks read it.
    return unit.read(LOG, MAX_LOG_BYTES).decode("utf-8", errors="replace").splitlines()


def backend_agrees(backend: str, platform: str) -> bool:
    """Whether what a library calls its devices is of a platform; a word that is not known is."""
    # Libraries append numbers and versions, as in `cuda:0` or `TPU v5`.
    word = re.split(r"[\s:.\d]", backend.strip().lower(), maxsplit=1)[0]
    return BACKENDS.get(word, platform) == platform


def _attempts(unit: Unit, lines: Sequence[str]) -> list[_Attempt]:
    """The attempts, each of which begins with its device."""
    parts: list[list[str]] = []
    for line in lines:
        # A log that does not begin with a device still has one attempt, whose missing line is reported.
        if line.startswith(PREAMBLE[0]) or not parts:
            parts.append([])
        parts[-1].append(line)
    starts = [next((int(match.group(1)) for line in part if (match := _RESUME.fullmatch(line))), 0) for part in parts]
    return [_Attempt(lines=tuple(part), start=start, is_last=number == len(parts) - 1,
                     # The earliest later start: a third attempt may go back behind the second.
                     valid=min([*starts[number + 1:], unit.manifest.completed_steps]))
            for number, (part, start) in enumerate(zip(parts, starts, strict=True))]


def _form_problems(attempt: _Attempt) -> list[str]:
    """Lines of no known form, in another order than they are written in, or twice."""
    # The last line of an attempt that was killed may be torn.
    lines = attempt.lines if attempt.is_last else attempt.lines[:-1]
    ranks = [_rank(line) for line in lines]
    problems = [f"{LOG} has a line that no run writes: {line[:60]!r}"
                for line, rank in zip(lines, ranks, strict=True) if rank is None]
    known = [rank for rank in ranks if rank is not None]
    # Equal ranks may repeat, as those of steps do.
    if known != sorted(known):
        problems.append(f"{LOG}: lines in another order than they are written in")
    for begin in (*ONCE, *ENDS) if attempt.is_last else ():
        if (count := len(attempt.with_beginning(begin))) > 1 or (begin in ONCE and not count):
            problems.append(f"{LOG} has {count} lines that begin with {begin.strip()!r}")
    steps = [int(match.group(1)) for line in lines if (match := _NUMBER.match(line))]
    if any(after <= before for before, after in zip([attempt.start, *steps], steps, strict=False)):
        problems.append(f"{LOG}: steps in another order than they were taken in")
    return problems


def _rank(line: str) -> int | None:
    """Place of a line in the order of an attempt; None for one of no known form."""
    for rank, begin in enumerate(PREAMBLE):
        if line.startswith(begin):
            return rank
    if line.startswith(BODY):
        return len(PREAMBLE)
    return next((len(PREAMBLE) + 1 + number for number, begin in enumerate(ENDS) if line.startswith(begin)), None)


def _pace_problems(unit: Unit, attempt: _Attempt) -> list[str]:
    """Tokens a second and time left, from the seconds of the last steps; steps that the run does not have."""
    rows, planned, problems = {row["step"]: row for row in unit.metrics}, unit.manifest.planned_steps, []
    first = attempt.start + 1
    line_of_step = {}
    for line in attempt.with_beginning(STEP):
        match = _NUMBER.match(line)
        step = int(match.group(1)) if match else 0
        line_of_step[step] = line
        if step > attempt.valid and attempt.is_last:
            problems.append(f"{LOG} has step {step}, {unit.manifest.completed_steps} were completed")
        # The window begins with the attempt: the one before ran in another process.
        recent = [rows.get(number) for number in range(max(first, step - WINDOW + 1), step + 1)]
        if first <= step <= attempt.valid and None not in recent:
            now = pace([row for row in recent if row is not None], planned, first=first)
            # Columns are two spaces apart, and the pace stands behind the learning rate.
            pace_text = line.partition("  lr ")[2].partition("  ")[2]
            if pace_text not in _pace_texts(now):
                problems.append(f"{LOG}, step {step}: {pace_text[:60] or 'no pace'!r}, the seconds of its steps give "
                                f"{_pace_texts(now)[0] or 'none'!r}")
    # A step that failed may have been counted before its line was written.
    if attempt.is_last and unit.manifest.status != "failed":
        problems += [f"{LOG} has no line of step {number}" for number, row in rows.items()
                     if first <= number <= attempt.valid and has_log_line(row, planned) and number not in line_of_step]
    return problems


def _pace_texts(now: Pace | None) -> list[str]:
    """The pace as the log has it, rounded in either way where the last bits decide."""
    if now is None:
        return [""]
    paces = [Pace(tokens_per_second=now.tokens_per_second * factor, seconds_left=now.seconds_left / factor)
             # Written numbers are rounded: the last bit decides which of two texts is written at the edge.
             for factor in (1.0, 1 - LAST_BITS, 1 + LAST_BITS)]
    return [f"{each.rate_text}  {each.left_text}" for each in paces]


def _expected_problems(unit: Unit, attempt: _Attempt, announced: Mapping[str, str]) -> list[str]:
    """Lines of the last attempt that follow from the record, whole."""
    manifest, facts, words = unit.manifest, unit.manifest.facts, unit.json_object(OVERRIDES)
    doctor = unit.json_object(DOCTOR) if unit.has(DOCTOR) else {}
    expected = {
        "doctor     ": [f"doctor     {finding.get('what')}; {finding.get('why')}; try: {finding.get('mend', '')}"
                        for finding in doctor.get("findings") or () if finding.get("judgement") == "problem"],
        **{f"{name}    " if name == "renamed" else f"{name}     ": [
            f"{name:<10} {note}" for note in words.get(name) or ()] for name in ("renamed", "chosen") if name in words},
        "pairs      ": _pairs_lines(unit)}
    if attempt.with_beginning("over plan  "):  # development versions of 0.1.0 did not say it
        expected["over plan  "] = _over_plan_lines(unit)
    if "sentence" in (held_out := facts.get("held_out") or {"sentence": ""}):
        expected["held out   "] = [f"held out   {held_out['sentence']}"] if held_out["sentence"] else []
    problems = []
    for begin, lines in expected.items():
        if attempt.with_beginning(begin) != lines:
            problems.append(f"{LOG} says {str(attempt.with_beginning(begin))[:80]}, the record {str(lines)[:80]}")
    for line in attempt.lines:
        if line.startswith("engine     "):
            problems += engine_line_problems(unit, line)
        # Only the last part: the folder may have been moved since.
        if line.startswith("writing    ") and PurePath(line[11:]).name != manifest.name:
            problems.append(f"{LOG} says {line[:60]!r}, the run is {manifest.name[:40]!r}")
        if line.startswith("curves     ") and ((match := _CURVES.fullmatch(line)) is None or (
                match["folder"] and PurePath(match["folder"]).name != manifest.name)):
            problems.append(f"{LOG} says {line[:60]!r}, the run is {manifest.name[:40]!r}")
        if line.startswith("not proven ") and line[11:] != unproven_sentence(manifest.architecture):
            problems.append(f"{LOG} says {line[:60]!r}")
        if line.startswith("left aside ") and LEFT_ASIDE not in facts:
            problems.append(f"{LOG} says {line[:60]!r}, the manifest names nothing that was left aside")
    missing = [begin for begin in announced if not attempt.with_beginning(begin)]
    return problems + [f"{LOG} has no line of {begin.strip()!r}" for begin in missing if begin not in ONCE]


def _pairs_lines(unit: Unit) -> list[str]:
    """The line about preference pairs, where the run learned from them."""
    change = pairs_change_sentence(unit)
    return [f"pairs      {change}"] if change else []


def _over_plan_lines(unit: Unit) -> list[str]:
    """The line about memory, where the run exceeded its plan."""
    measured = unit.json(MEASURED) if unit.has(MEASURED) else None
    sentence = excess_sentence(measured) if isinstance(measured, dict) else ""
    return [f"over plan  {sentence}"] if sentence else []


def pairs_change_sentence(unit: Unit) -> str:
    """What became of the preference pairs, from the metrics; empty without pairs, or without two steps."""
    algorithm = unit.manifest.config_snapshot.get("algorithm")
    if not isinstance(algorithm, dict) or algorithm.get("name") != "dpo":
        return ""
    beta = algorithm.get("beta")
    # Change is divided by it; `not >` also catches a NaN.
    if not isinstance(beta, int | float) or not beta > 0:
        raise RecordError("config_snapshot: algorithm.beta is no number above 0")
    change = preference_change(unit.metrics, beta)
    return change.sentence if change is not None else ""


def _sample_problems(unit: Unit, attempt: _Attempt) -> list[str]:
    """Samples of a step at which none was due, or of more questions than the recipe asks."""
    section: Any = unit.manifest.config_snapshot.get("evaluation")
    section = section if isinstance(section, dict) else {}
    # Read from the raw section: this version may not know the recipe's other keys.
    every, samples_asked = section.get("every_steps"), section.get("samples")
    problems: list[str] = []
    counts: dict[int, int] = {}
    for line in attempt.with_beginning(SAMPLE):
        match = _SAMPLE.fullmatch(line)
        step = int(match.group(1)) if match else 0
        counts[step] = counts.get(step, 0) + 1
        # A step that could not be counted may have been looked at.
        last = unit.manifest.completed_steps + (unit.manifest.status == "failed")
        if match is None or not attempt.start < step <= last or (
                isinstance(every, int) and every > 0 and step % every and step != unit.manifest.planned_steps):
            problems.append(f"{LOG}: no sample was due: {line[:60]!r}")
    problems += [f"{LOG} has {count} samples after step {step}, the recipe asks for {samples_asked}"
                 for step, count in counts.items() if isinstance(samples_asked, int) and count > samples_asked]
    expected = _last_samples(unit, counts.get(unit.manifest.planned_steps, 0))
    logged_samples = attempt.with_beginning(f"{SAMPLE}{unit.manifest.planned_steps}: ")
    if expected and logged_samples != expected:
        problems.append(f"{LOG} says {str(logged_samples)[:120]}, the evaluation has {str(expected)[:120]}")
    return problems


def _last_samples(unit: Unit, count: int) -> list[str]:
    """The samples after the last step as the evaluation's answers give them; none where the two may differ."""
    lines = [f"{SAMPLE}{unit.manifest.planned_steps}: {row.get('prompt')!r} -> {row.get('completion')!r} "
             f"({row.get('finish_reason')})" for row in final_answers(unit, count)]
    # The log is cleaned of names before it is written; the predictions are not.
    return [] if any(REDACTED in line for line in lines) else lines


def final_answers(unit: Unit, count: int) -> list[dict[str, Any]]:
    """The first of the evaluation's predictions, where the last look in training must have seen the same answers.

    Both are greedy answers of the same weights, in batches of other sizes: in float32 on a CPU rounding does not decide
    between two tokens. Empty where the two may differ.
    """
    formats = {unit.manifest.actual_dtypes.get(name) for name in ("parameters", "compute")}
    evaluation = unit.recipe_evaluation
    # Elsewhere the batch size may change the last bits of a logit, and with them a greedy token.
    if evaluation is None or formats != {"float32"} or unit.manifest.actual_device.platform != "cpu" or (
            unit.manifest.status != "complete"):
        return []
    decoding = evaluation.json_object(EVALUATION_CONFIG).get("decoding")
    if not isinstance(decoding, dict) or decoding.get("temperature") != 0 or decoding.get("samples") != 1:
        return []
    rows = evaluation.lines(PREDICTIONS)[:count]
    if any(type(row.get("completion_tokens")) is not int or row["completion_tokens"] > MAX_SAMPLE_TOKENS
           for row in rows):
        return []
    return rows
