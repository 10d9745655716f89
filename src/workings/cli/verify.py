"""`workings verify`: can a stranger check this record? Offline, without any ML library."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workings.cli.output import JsonFlag, Meaning, answer, painted, say
from workings.errors import RecordError, RequestError

if TYPE_CHECKING:
    from workings.evidence.verify import Verification
    from workings.evidence.verify.record import Replay

USUAL_LEVEL = 2
"""The default of `--level`: the highest level that needs no engine."""
NOT_PROVED = (
    "Verification does not prove that these steps ran on that device at that time, that no other run was left out of "
    "the list of attempts, or that the data are what they are called. A replay shows only that the recorded steps give "
    "the recorded numbers; an independent run of the same recipe needs no trust in this record's author.")
"""Ends the text of `--verbose`."""
# One width, so that the ids align.
VERDICT_MARKS = {"passed": "passed     ", "failed": "FAILED     ", "not_checked": "not checked"}
MEANINGS: dict[str, Meaning] = {"passed": "good", "failed": "bad", "not_checked": "warning"}


def verify_command(
    path: Annotated[Path | None, typer.Argument(help="A run directory, a folder of runs, or a zip of them.")] = None,
    level: Annotated[int | None, typer.Option(
        "--level", min=0, help="Highest level to check, 2 if not given. Exit 1 if it is given and not reached.",
    )] = None,
    require_level: Annotated[int, typer.Option(
        "--require-level", min=-1, help="Exit 3 if the record reaches a lower level.")] = -1,
    expect_root: Annotated[str, typer.Option("--expect-root", help="Root digest that you kept elsewhere.")] = "",
    key: Annotated[list[Path] | None, typer.Option(
        "--key", help="Public key to trust; it (or one of several) must have signed every unit.")] = None,
    steps: Annotated[int | None, typer.Option(
        "--steps", min=1, help="Level 3: steps to recompute, 10 if neither this nor --whole is given.")] = None,
    whole: Annotated[bool, typer.Option(
        "--whole", help="Level 3: recompute every step and every answer of the run.")] = False,
    seed: Annotated[int | None, typer.Option(
        "--seed", min=0, help="Level 3: selects the steps and answers; by default a random one, which is printed.",
    )] = None,
    data: Annotated[Path | None, typer.Option(
        "--data", help="File of the traces, if it is not at the recipe's path.")] = None,
    weights: Annotated[Path | None, typer.Option(
        "--weights", help="Directory of the base weights, if it is not at the recipe's path.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="A line for every check, with its finding.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Check a record, offline, to level 2 without any ML library.

    Levels: 0 integrity, 1 consistency, 2 scores recomputed, 3 steps recomputed (needs the run's engine and data).
    """
    from workings.evidence.verify import HIGHEST_LEVEL, verify
    from workings.record.progress import slow_operation
    from workings.ui.verification_cache import VerificationCache

    if path is None:
        raise RequestError("there is nothing to verify", "a run directory, a folder of runs, or a zip of them",
                           "workings verify runs/NAME")
    highest = USUAL_LEVEL if level is None else level
    if highest > HIGHEST_LEVEL:
        raise RequestError(f"there is no level {highest}", f"a level from 0 to {HIGHEST_LEVEL}",
                           f"--level {HIGHEST_LEVEL}")

    replay = _replayer(highest, steps=steps, whole=whole, seed=seed, data=data, weights=weights)
    verdicts = VerificationCache.here()  # the page's badges
    before = verdicts.stamps(path)
    keys = _trusted(key or [])
    with slow_operation(f"checking {path}"):
        result = verify(path, level=highest, expect_root=expect_root, trusted=keys, replay=replay)
    if result.is_about_files:
        verdicts.keep_same(before, result.to_json())
    answer(result.to_json(), as_json=as_json, text=verification_text(result, verbose=verbose))
    # A failed check outranks an unreached level: something is wrong, not just missing.
    if result.failed:
        raise typer.Exit(1)
    if result.level < require_level:
        raise typer.Exit(3)
    if level is not None and result.level < level:
        # What blocked the next level's first check, although nothing failed.
        reason = next((check.text for check in result.checks if check.verdict == "not_checked" and check.blocking),
                      _nothing_here(result))
        say(f"level {level} was asked for, and the record reaches level {result.level}: {reason}")
        raise typer.Exit(1)


def verification_text(result: "Verification", *, verbose: bool) -> str:
    """One line if all is well; else what is wrong or blocks a level; all checks if ``verbose``.

    For level 3 also what was recomputed, and what was not.
    """
    from workings.evidence.replay.step_selection import sentences

    lines = [_line(str(check.verdict), f"{check.id}: {check.text}") for check in result.checks
             ] if verbose else _what_is_wrong(result)
    meaning: Meaning = "bad" if result.failed else "good" if result.level == result.asked_level else "warning"
    summary = painted(f"{result.outcome}: {result.path}", meaning, sys.stdout) + (
        f", {result.counts}" + ("" if verbose else "; -v lists them"))
    coverage_lines = [line if unit_path == "." else f"{unit_path}: {line}"
                      for unit_path, facts in result.coverage.items()
                      for line in sentences(dict(facts))]
    limits = ["", NOT_PROVED, ""] if verbose else []
    unchecked_lines = [f"self-reported: {field.text}" for field in result.unchecked_fields] if verbose else []
    if unchecked := len(result.unchecked_fields):
        fields = "field is" if unchecked == 1 else "fields are"
        summary += f"\n{unchecked} {fields} self-reported; nothing in the record confirms them" + (
            "" if verbose else " (-v lists them)")
    # Differs from the root in the run's SEAL.json and in a pack if evaluations are in the run.
    root = [f"root {result.root} (of everything here)"] if result.root else []
    return "\n".join([*lines, *unchecked_lines, *limits, *coverage_lines, summary, *root])


def _what_is_wrong(result: "Verification") -> list[str]:
    """A line for each check that failed or blocked a level; many failures of one damaged file share a line.

    Checks that need input from outside are usually not made, and that is fine.
    """
    unreadable: dict[str, list[str]] = {}
    for check in result.checks:
        if check.unreadable:
            unreadable.setdefault(check.text, []).append(check.id)
    lines, told = [], set()
    for check in result.checks:
        verdict, stopped = str(check.verdict), unreadable.get(check.text, ())
        if verdict == "failed" and len(stopped) > 1:
            if check.text not in told:
                told.add(check.text)
                # The first check with this reason may be the one that found the damage.
                lines.append(_line(verdict, check.text if check.unreadable else f"{check.id}: {check.text}"))
                lines.append(_line(verdict, f"{len(stopped)} checks could not be made because of that: "
                                            f"{', '.join(stopped)}"))
        # If nothing could be opened, print only the line that says why.
        elif verdict == "failed" or (verdict == "not_checked" and check.blocking and result.root):
            lines.append(_line(verdict, f"{check.id}: {check.text}"))
    if not lines and result.root and result.level < result.asked_level:
        lines.append(_line("not_checked", f"level {result.level + 1}: {_nothing_here(result)}"))
    return lines


def _nothing_here(result: "Verification") -> str:
    return f"nothing here to check{', such as an evaluation' if result.level == 1 else ''}"


def _line(verdict: str, text: str) -> str:
    return painted(f"{VERDICT_MARKS[verdict]}  {text}", MEANINGS[verdict], sys.stdout)


def _trusted(files: Sequence[Path]) -> tuple[bytes, ...]:
    """The public keys to trust."""
    if not files:
        return ()
    from workings.evidence.attest import keys

    keys.require_available()
    # Parse each file at once: a typing error should not look like a missing signature.
    for file in files:
        try:
            keys.public_key(file.read_bytes())
        except (OSError, RecordError) as error:
            raise RequestError(f"the key {file} cannot be read: {error}",
                               "a public key in PEM, as `workings runs sign --new-key FILE` makes",
                               f"--key {file}.pub") from None
    return tuple(file.read_bytes() for file in files)


def _replayer(level: int, *, steps: int | None, whole: bool, seed: int | None, data: Path | None,
              weights: Path | None) -> "Replay | None":
    """The function that replays steps of a run; None below level 3, without which no engine is imported."""
    given = {"steps": steps, "seed": seed, "data": data, "weights": weights}
    words = [*(f"--{name} {value}" for name, value in given.items() if value is not None), *["--whole"] * whole]
    if level < 3:
        if words:
            raise RequestError(f"--level {level} does not use {' '.join(words)}", "level 3, which recomputes steps",
                               "--level 3")
        return None
    if steps is not None and whole:
        raise RequestError("--steps and --whole cannot be combined", "a number of steps, or the whole run",
                           "leave --steps out")
    from workings.runs.replay import STEPS, ReplayRequest, replay_run

    request = ReplayRequest(drawn=True, whole=whole, seed=seed, steps=steps or STEPS, data=data,
                            weights=weights)
    return lambda run, samples: replay_run(run, replace(request, samples=samples), say)
