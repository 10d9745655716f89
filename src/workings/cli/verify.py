"""`workings verify`: can a stranger confirm this record, offline and without any ML library?"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workings.cli.options import refuse_unread
from workings.cli.output import answer, say
from workings.errors import RecordError, RequestError

if TYPE_CHECKING:
    from workings.evidence.verify import Check, Verification
    from workings.evidence.verify.record import Replay

NOT_PROVED = (
    "Verification does not prove that these steps ran on that device at that time, that no other run was left out of "
    "the list of attempts, or that the data are what they are called. A replay shows only that the recorded steps give "
    "the recorded numbers; an independent run of the same recipe needs no trust in this record's author.")
"""Ends the text of `--verbose`."""
VERDICT_MARKS = {"passed": "passed     ", "failed": "FAILED     ", "not_checked": "not checked"}


def verify_command(
    path: Annotated[Path, typer.Argument(help="A run directory, a folder of runs, or a zip of them.")],
    level: Annotated[int | None, typer.Option(
        min=0, help="Highest level to check, 2 if not given. Exit 1 if it is given and not reached.")] = None,
    require_level: Annotated[int, typer.Option(min=-1, help="Exit 3 if the record reaches a lower level.")] = -1,
    expect_root: Annotated[str, typer.Option(help="Root digest that you kept elsewhere.")] = "",
    key: Annotated[list[Path] | None, typer.Option(
        help="Public key to trust; it (or one of several) must have signed every unit.")] = None,
    steps: Annotated[int | None, typer.Option(
        min=1, help="Level 3: steps to recompute, 10 if neither this nor --whole is given.")] = None,
    whole: Annotated[bool, typer.Option(
        "--whole", help="Level 3: recompute every step and every answer of the run.")] = False,
    seed: Annotated[int | None, typer.Option(
        min=0, help="Level 3: selects the steps and answers; by default a random one, which is printed.")] = None,
    data: Annotated[Path | None, typer.Option(help="File of the traces, if it is not at the recipe's path.")] = None,
    weights: Annotated[Path | None, typer.Option(
        help="Directory of the base weights, if it is not at the recipe's path.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="A line for every check, with its finding.")] = False,
    render: Annotated[str, typer.Option(
        metavar="TEXT", help="Verify nothing: print a view, such as README.md, as the record gives it.")] = "",
) -> None:
    """Check a record, offline, to level 2 without any ML library.

    Levels: 0 integrity, 1 consistency, 2 scores recomputed, 3 steps recomputed (needs the run's engine and data).
    """
    from workings.evidence.verify import HIGHEST_LEVEL, verify
    from workings.record.progress import slow_operation
    from workings.ui.verification_cache import VerificationCache

    if render:
        text = _view(path, render)
        answer({"text": text}, text)
        return
    highest = 2 if level is None else level  # the highest that needs no engine
    if highest > HIGHEST_LEVEL:
        raise RequestError(f"there is no level {highest}", f"a level from 0 to {HIGHEST_LEVEL}",
                           f"--level {HIGHEST_LEVEL}")
    replay: Replay | None = None
    if highest == HIGHEST_LEVEL:
        replay = _replayer(steps, whole, seed, data, weights)
    else:
        refuse_unread(f"at level {highest}", "these with --level 3, which recomputes steps", "steps", "whole", "seed",
                      "data", "weights")
    verdicts = VerificationCache.here()  # for the page
    stamp = verdicts.stamp(path)
    keys = _trusted(key or [])
    with slow_operation(f"checking {path}"):
        result = verify(path, level=highest, expect_root=expect_root, trusted=keys, replay=replay)
    if result.is_about_files:
        verdicts.keep(path, stamp, result.to_json())
    code = 0
    if result.failed:
        code = 1
    elif result.level < require_level:
        code = 3
    elif level is not None and result.level < level:
        reason = next((check.text for check in _blocked(result)), _nothing_here(result))
        say(f"level {level} was asked for, and the record reaches level {result.level}: {reason}")
        code = 1
    answer(result.to_json(), verification_text(result, verbose=verbose), code)


def _view(path: Path, name: str) -> str:
    from workings.evidence.verify.checks.run_consistency import views_of
    from workings.evidence.verify.load import load
    from workings.evidence.verify.tree import open_tree

    views = views_of(load(open_tree(path)).units[0])
    if name not in views:
        raise RequestError(f"{path} has no view named {name!r}", f"one of {', '.join(views) or 'none'}",
                           f"workings verify {path} --render README.md")
    return views[name]()


def verification_text(result: "Verification", *, verbose: bool) -> str:
    """The result for humans: what is wrong or blocks a level (every check if ``verbose``), and a line in sum.

    For level 3 also what was recomputed, and what was not.
    """
    from workings.evidence.replay.step_selection import sentences

    lines = _what_is_wrong(result)
    if verbose:
        lines = [*(_line(str(check.verdict), f"{check.id}: {check.text}") for check in result.checks),
                 *(f"self-reported: {field.text}" for field in result.unchecked_fields), "", NOT_PROVED, ""]
    for unit_path, facts in result.coverage.items():
        unit = "" if unit_path == "." else f"{unit_path}: "
        lines += [f"{unit}{sentence}" for sentence in sentences(dict(facts))]
    lines.append(f"{result.outcome}: {result.path}, {result.counts}{'' if verbose else '; -v lists them'}")
    if result.unchecked_fields:
        count = len(result.unchecked_fields)
        lines.append(f"{count} {'field is' if count == 1 else 'fields are'} self-reported; nothing in the record "
                     f"confirms them{'' if verbose else ' (-v lists them)'}")
    if result.root:  # evaluations in a run included, unlike the root in the run's SEAL.json
        lines.append(f"root {result.root} (of everything here)")
    return "\n".join(lines)


def _what_is_wrong(result: "Verification") -> list[str]:
    """A line for each check that failed or blocked a level; checks with the same text share a line."""
    failed: dict[str, list[str]] = {}
    for check in result.checks:
        if check.verdict == "failed":
            failed.setdefault(check.text, []).append(check.id)
    lines = []
    # The first check with a text found the damage, the others could not be made.
    for text, (first, *stopped) in failed.items():
        lines.append(_line("failed", f"{first}: {text}"))
        if stopped:
            lines.append(_line("failed", f"{len(stopped)} checks could not be made because of that: "
                                         f"{', '.join(stopped)}"))
    if result.root:
        lines += [_line("not_checked", f"{check.id}: {check.text}") for check in _blocked(result)]
        if not lines and result.level < result.asked_level:
            lines.append(_line("not_checked", f"level {result.level + 1}: {_nothing_here(result)}"))
    return lines


def _blocked(result: "Verification") -> list["Check"]:
    """The checks that could not be made, so that a level was not reached."""
    return [check for check in result.checks if check.verdict == "not_checked" and check.blocking]


def _nothing_here(result: "Verification") -> str:
    return f"nothing here to check{', such as an evaluation' if result.level == 1 else ''}"


def _line(verdict: str, text: str) -> str:
    return f"{VERDICT_MARKS[verdict]}  {text}"


def _trusted(files: Sequence[Path]) -> tuple[bytes, ...]:
    if not files:
        return ()
    from workings.evidence.attest import keys

    keys.require_available()
    # Read each key now: a wrong file should not look like a missing signature.
    for file in files:
        try:
            keys.public_key(file.read_bytes())
        except (OSError, RecordError) as error:
            raise RequestError(f"the key {file} cannot be read: {error}",
                               "a public key in PEM, as `workings runs sign --new-key FILE` makes",
                               f"--key {file}.pub") from None
    return tuple(file.read_bytes() for file in files)


def _replayer(steps: int | None, whole: bool, seed: int | None, data: Path | None, weights: Path | None) -> "Replay":
    from workings.runs.replay import STEPS, ReplayRequest, replay_run

    if steps is not None and whole:
        raise RequestError("--steps and --whole cannot be combined", "a number of steps, or the whole run",
                           "leave --steps out")
    request = ReplayRequest(drawn=True, whole=whole, seed=seed, steps=steps or STEPS, data=data, weights=weights)
    return lambda run, samples: replay_run(run, replace(request, samples=samples), say)
