"""Levels 0 and 1: notes have their form, are about the run around them, and do not contradict its record."""

from collections.abc import Iterator

from workings.evidence.notes import NUMBER, parse_note, recorded_value
from workings.evidence.verify.record import Record, Unit
from workings.evidence.verify.registry import check, finding_from
from workings.evidence.verify.result import CheckFinding
from workings.record.layout import NOTE
from workings.record.values import moment


def notes_of(record: Record) -> list[Unit]:
    """All notes, by run and number."""
    def run_and_number(unit: Unit) -> tuple[str, int]:
        name = unit.path.rpartition("/")[2]
        # By number and not by name: as texts, note 10 would come before note 2.
        return (unit.parent.path if unit.parent else "", int(name) if NUMBER.fullmatch(name) else 0)
    return sorted((unit for unit in record.units if unit.kind == "notes"), key=run_and_number)


@check("form.schema", notes_of)
def form(unit: Unit) -> Iterator[CheckFinding]:
    """One file with exactly its keys, in a folder with a number."""
    facts = parse_note(unit.json(NOTE))["facts"]
    problems = [] if set(unit.files) == {NOTE} else ["a note holds nothing but its facts"]
    if unit.parent is not None and not NUMBER.fullmatch(unit.path.rpartition("/")[2]):
        problems.append("notes are numbered")
    yield finding_from(problems, f"{len(facts)} facts said afterwards", unit)


@check("consistency.made_from", notes_of)
def consistent(unit: Unit) -> Iterator[CheckFinding]:
    """Time and facts of a note against its run: later facts replace no recorded value."""
    run = unit.parent
    if run is None:
        return
    note = parse_note(unit.json(NOTE))
    problems = [] if note["run"] == run.root else ["it names another run's root"]
    # A note that is older than its run could not know what the run recorded, and could pretend to have foreseen it.
    if moment(note["written_at"]) < moment(run.manifest.finished_at):
        problems.append("written before the run had finished")
    problems += [f"{key}: the run itself recorded {str(recorded)[:40]!r}" for key in sorted(note["facts"])
                 if (recorded := recorded_value(run.manifest, key)) is not None]
    yield finding_from(problems, f"said at {note['written_at']}", unit)
