"""Levels 0 to 2: a pack holds the units that it lists, lacks only tensors, and its texts follow from its records."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from workings.errors import RecordError, RequestError
from workings.evidence.claims import CLAIMS, Claim, agrees, parse_claims, resolve, unsourced
from workings.evidence.model_card import FORM, model_card
from workings.evidence.pack.form import BY_DIGEST, COMPARISON, PACK, REPORT, may_be_external, parse_pack
from workings.evidence.pack.readme import FORM as README_FORM
from workings.evidence.pack.readme import PackedRun, readme
from workings.evidence.verify.checks.evaluations import differences
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import check, every_pack, failed, finding_from, join_first, not_checked
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.tree import shown
from workings.evidence.writeup import WRITEUP
from workings.record.layout import (
    EVALUATION_CONFIG,
    EVALUATION_SUMMARY,
    MANIFEST,
    OVERRIDES,
    PREDICTIONS,
    README,
    RECIPE,
    SEAL,
    SUMS,
    check_relative,
)

# A report page with its figures is far below this; a larger text is refused before it is searched for numbers.
MAX_DOCUMENT_BYTES = 16 << 20
CARDS, RECIPES = "model_cards", "recipes"


@check("integrity.pack", level=0, title="a pack holds exactly the units that it lists, with their roots",
       units=every_pack, example="a run or an evaluation taken out of a pack")
def units(pack: Unit) -> Iterator[CheckFinding]:
    """The pack's list against the units that are there: no run and no evaluation was added or taken away."""
    listed, _ = parse_pack(pack.json(PACK))
    present = {_path_in(pack, unit): unit for unit in pack.record.units if unit is not pack and unit.path.startswith(
        pack.tree_path(""))}
    problems = [f"{shown(path)} is listed and not here" for path in sorted(listed.keys() - present.keys())]
    problems += [f"{shown(path)} is here and not listed" for path in sorted(present.keys() - listed.keys())]
    problems += [f"{shown(path)} has another root than the one listed" for path in sorted(present.keys() & listed)
                 if not present[path].has(SUMS) or present[path].root != listed[path]]
    # A seal in the pack's own files would look like a checked run to a reader, and no check would have opened it.
    problems += [f"{shown(name)}: a unit where none may stand, so nothing in it was checked"
                 for name in sorted(pack.files) if name.rpartition("/")[2] in (SEAL, SUMS, MANIFEST)]
    yield finding_from(problems, f"{len(listed)} units", pack)


@check("integrity.by_digest", level=0, title="only a checkpoint's tensors are named by digest", units=every_pack,
       example="a training log left out of a pack as if it were weights")
def by_digest(pack: Unit) -> Iterator[CheckFinding]:
    """Files that the pack names by digest: they are not here and were not hashed, so neither missing nor checked."""
    _, rows = parse_pack(pack.json(PACK))
    runs = _runs_in(pack)
    present = [f"{shown(run.tree_path(name))}: here, and the pack names such files by digest" for run in runs.values()
             for name in run.files if may_be_external(name)] if pack.json(PACK)["weights"] == BY_DIGEST else []
    if not rows and not present:
        return
    problems, names = present, []
    for row in rows:
        name = shown(f"{row.run_path}/{row.file}")
        if not may_be_external(row.file):
            problems.append(f"{name}: a file of this kind has to be in the pack")
        elif row.run_path not in runs:
            problems.append(f"{name}: of no run in the pack")
        elif row.file not in runs[row.run_path].external_files:
            problems.append(f"{name}: here as well, or not with the digest that the run's sums have")
        names.append(name)
    if problems:
        yield failed(join_first(problems), pack)
        return
    # Not checked rather than passed: nobody has seen these bytes. A replay, which needs them, says so too.
    total = sum(row.bytes for row in rows)
    yield not_checked(f"{len(rows)} files ({total:,} bytes) are named by their digests and are not here: "
                      f"{join_first(names)}", pack, blocking=False)


@check("consistency.pack", level=1, title="a pack's README and recipes are those of its records", units=every_pack,
       example="another command to train a run again, in the README of a pack")
def texts(pack: Unit) -> Iterator[CheckFinding]:
    """The README, generated again if it is of this version's form; each recipe against that of its run."""
    runs = _runs_in(pack)
    recipes = {f"{RECIPES}/{path.rpartition('/')[2]}.yaml": run for path, run in runs.items()}
    packed_recipes = {name for name in pack.files if name.startswith(f"{RECIPES}/")}
    problems = [f"{shown(name)} is here, and not the recipe of a run" if name in packed_recipes else
                f"{shown(name)} is missing" for name in sorted(packed_recipes ^ recipes.keys())]
    problems += [f"{name} is not the recipe of {shown(run.path)}" for name, run in sorted(recipes.items())
                 if name in packed_recipes
                 and pack.read(name, MAX_DOCUMENT_BYTES) != run.read(RECIPE, MAX_DOCUMENT_BYTES)]
    form = pack.json(PACK).get("readme")
    if form != README_FORM:
        yield not_checked(f"a README of form {shown(str(form))}, this version writes {README_FORM}", pack,
                          blocking=False)
    # Byte by byte: a single changed number in it would mislead whoever reads nothing else.
    elif pack.read(README, MAX_DOCUMENT_BYTES) != _readme(pack, runs).encode("utf-8"):
        problems.append(f"{README} is not what the records give")
    yield finding_from(problems, f"{README} and {len(recipes)} recipes", pack)


@check("recompute.claims", level=2, title="every number in the pack's texts is its source's, at its rounding",
       units=every_pack, example="a number changed in the report of a pack")
def claims(pack: Unit) -> Iterator[CheckFinding]:
    """Each claim's number stands where it says, and is the value it names; no number of a model card is without one."""
    stated = parse_claims(pack.json(CLAIMS))
    texts = {name: pack.read(name, MAX_DOCUMENT_BYTES).decode("utf-8", errors="replace") for name in _documents(pack)}
    problems = [problem for claim in stated for problem in _claim_problems(pack, claim, texts)]
    bare = {name: unsourced(name, text, stated) for name, text in texts.items()}
    problems += [f"{name}: {join_first(numbers)} without a source" for name, numbers in bare.items()
                 if numbers and name.startswith(CARDS + "/")]
    # A model card is made from the record and can source every number; a person's text and the report need not.
    others = [f"{name}: {len(numbers)} numbers" for name, numbers in bare.items()
              if numbers and not name.startswith(CARDS + "/")]
    if others and not problems:
        yield not_checked(f"{len(stated)} numbers are their sources'; without a source in {CLAIMS}: "
                          f"{join_first(others)}", pack, blocking=False)
    yield finding_from(problems, f"{len(stated)} numbers of {len(texts)} texts", pack)


@check("recompute.model_cards", level=2, title="model cards, made again from the record, are those in the pack",
       units=every_pack, example="a number hidden in a model card")
def cards(pack: Unit) -> Iterator[CheckFinding]:
    """The cards, generated again byte for byte, if they are of this version's form."""
    form = pack.json(PACK).get("model_cards")
    if form != FORM:
        yield not_checked(f"cards of form {shown(str(form))}, this version writes {FORM}", pack, blocking=False)
        return
    problems = []
    packed = _runs_in(pack)
    for path, run in packed.items():
        name = f"{CARDS}/{run.path.rpartition('/')[2]}.md"
        evaluations = {unit.path.rpartition("/")[2]: {"summary": unit.json(EVALUATION_SUMMARY),
                                                       "config": unit.json(EVALUATION_CONFIG)}
                       for unit in pack.record.evaluations if unit.parent is run}
        # The card is a function of the record, so an edited number shows as a difference whatever its claim says.
        again = model_card(name, path, run.manifest, run.root, evaluations).text
        if pack.read(name, MAX_DOCUMENT_BYTES) != again.encode("utf-8"):
            problems.append(f"{name} is not the card of {path}")
    yield finding_from(problems, f"{len(packed)} cards made again", pack)


@check("recompute.comparison", level=2, title="the pack's comparison, computed again from the predictions, is the same",
       units=every_pack, example="a number changed in the comparison of two runs")
def comparison(pack: Unit) -> Iterator[CheckFinding]:
    """Every number of the comparison, its sentence and its verdict, against what the two evaluations give."""
    if not pack.has(COMPARISON):
        return
    recorded = pack.json(COMPARISON)
    # The pack may come from anybody: a side may be missing, or name an evaluation that is not here.
    sides = [recorded.get(side, {}).get("path") for side in ("a", "b")] if isinstance(recorded, dict) else []
    both = [next((unit for unit in pack.record.evaluations if _path_in(pack, unit) == side), None) for side in sides]
    if len(both) != 2 or both[0] is None or both[1] is None:
        yield failed(f"{COMPARISON} names evaluations that are not here", pack)
        return
    again = compared_again(pack, both[0], both[1], recorded)
    yield finding_from([f"{COMPARISON}: {path}" for path in differences(recorded, again)],
                       f"{shown(str(recorded.get('verdict')))}, every number equal", pack)


def compared_again(pack: Unit, a: Unit, b: Unit, recorded: Mapping[str, Any]) -> Any:
    """The comparison of two evaluations of a pack, computed from their files alone, in the form that was recorded.

    Raises:
        RecordError: the two cannot be compared.
    """
    from workings.evaluation.comparison.compare import compare_records
    from workings.evaluation.unit import EvaluationRecord

    # The comparison reads folders, so the few files that it needs are laid out as they stand in a run.
    with tempfile.TemporaryDirectory(prefix="workings-verify-") as folder:
        records = []
        for number, unit in enumerate((a, b)):
            run, path = unit.parent, Path(folder, str(number))
            if run is None:
                path /= _checked_name(unit)
                path.mkdir(parents=True)
            else:
                path = path / _checked_name(run) / "eval" / _checked_name(unit)
                path.mkdir(parents=True)
                path.parent.parent.joinpath(MANIFEST).write_bytes(run.read(MANIFEST))
            for name in (EVALUATION_CONFIG, EVALUATION_SUMMARY, PREDICTIONS, SUMS):
                (path / name).write_bytes(unit.read(name))
            records.append(EvaluationRecord(path))
        try:
            counted = "answers" in recorded
            compared = compare_records(*records, refuses_noise=counted)
            # Packs that were made before comparisons had flips, or counted answers, hold earlier forms under their
            # seals.
            value = compared.to_json() if "flips" in recorded else compared.first_form()
            if not counted:
                value = {key: part for key, part in value.items() if key not in ("answers", "refused")}
        except (RequestError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise RecordError(f"cannot be compared ({str(error)[:100]})") from None
    for side, unit in (("a", a), ("b", b)):
        if side in value:
            value[side]["path"] = _path_in(pack, unit)
    return value


def _readme(pack: Unit, runs: Mapping[str, Unit]) -> str:
    """The README that this version writes for these records."""
    contents: Any = pack.json(PACK)
    compared: Any = pack.json(COMPARISON) if pack.has(COMPARISON) else {}
    # The README names the run: `runs/a` for `runs/a/eval/items`.
    sides = ["/".join(str(compared[side]["path"]).split("/")[:2]) for side in ("a", "b") if side in compared]
    return readme(
        str(contents["workings_version"]), {path: PackedRun(
            root=run.root, manifest=run.manifest, asked=run.json(OVERRIDES) if run.has(OVERRIDES) else {})
            for path, run in runs.items()},
        compared=sides, by_digest=bool(contents["by_digest"]), has_report=pack.has(REPORT),
        has_writeup=pack.has(WRITEUP))


def _checked_name(unit: Unit) -> str:
    # The name becomes a folder on this machine: with `..` or a slash in it, it would lead out of the temporary one.
    name = unit.path.rpartition("/")[2]
    return str(check_relative(name))


def _runs_in(pack: Unit) -> dict[str, Unit]:
    """Runs of a pack by their path in it."""
    return {_path_in(pack, run): run for run in pack.record.runs if run.path.startswith(pack.tree_path(""))}


def _path_in(pack: Unit, unit: Unit) -> str:
    return unit.path[len(pack.path):].lstrip("/")


def _documents(pack: Unit) -> list[str]:
    """Names of the texts whose numbers are checked."""
    return sorted(name for name in pack.files if name in (REPORT, WRITEUP)
                  or (name.startswith(CARDS + "/") and name.endswith(".md")))


def _claim_problems(pack: Unit, claim: Claim, texts: dict[str, str]) -> list[str]:
    where = f"{shown(claim.document)}: {shown(claim.text)}"
    # By place and not by search: the same number may stand in several sentences.
    if claim.document not in texts or texts[claim.document][claim.at:claim.at + len(claim.text)] != claim.text:
        return [f"{where} does not stand there"]
    try:
        value = _value(pack, claim)
    except RecordError as error:
        return [f"{where}: {error}"]
    if not agrees(claim.text, value, claim.unit, claim.digits):
        return [f"{where} is not {shown(claim.source.file)} {shown(claim.source.pointer)}: {str(value)[:40]}"]
    return []


def _value(pack: Unit, claim: Claim) -> Any:
    full = pack.tree_path(claim.source.file)
    inside = [unit for unit in pack.record.units if full.startswith(f"{unit.path}/" if unit.path else "")]
    # The innermost unit answers for a file; the pack itself encloses all of them, so there is at least one.
    unit = max(inside, key=lambda unit: len(unit.path))
    name = full[len(unit.path):].lstrip("/")
    if not claim.source.line:
        return resolve(unit.json(name), claim.source.pointer)
    rows = unit.lines(name)
    # Lines count from 1, and 0 means the whole file.
    if claim.source.line > len(rows):
        raise RecordError(f"{name} has {len(rows)} lines")
    return resolve(rows[claim.source.line - 1], claim.source.pointer)


