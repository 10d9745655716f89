"""Level 1: texts for people say what their JSON says, and the list of attempts names this run."""

from collections.abc import Iterator
from pathlib import Path

from workings.errors import RecordError
from workings.evidence.verify import tree as trees
from workings.evidence.verify.checks import check, each_run, failed, judged, not_checked, passed
from workings.evidence.verify.record import Record, Unit
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.schemas import MAX_README_BYTES
from workings.evidence.verify.tree import FolderTree
from workings.record import jsonl
from workings.record.layout import ATTEMPTS, ENVIRONMENT, ENVIRONMENT_TEXT, README
from workings.record.values import text_view

TEXT_VIEWS = {ENVIRONMENT_TEXT: ENVIRONMENT}
"""Texts that `text_view` makes of a JSON file."""


@check("consistency.views", level=1, title="texts for people say what their JSON says")
def texts(record: Record) -> Iterator[CheckFinding]:
    """Each text view made again; the README's status is the manifest's."""
    def find(unit: Unit) -> Iterator[CheckFinding]:
        problems, seen = [], [README]
        for text, source in TEXT_VIEWS.items():
            if unit.has(text):
                value = unit.json(source)
                # Byte for byte: people read the text and programs the JSON, and a forger could change the one that is
                # not checked.
                if not isinstance(value, dict) or text_view(value).encode("utf-8") != unit.read(text):
                    problems.append(f"{text} does not say what {source} says")
                seen.append(text)
        readme = unit.read(README, MAX_README_BYTES).decode("utf-8", errors="replace")
        others = {"complete", "interrupted", "failed"} - {unit.manifest.status}
        if "Status:" in readme:
            # The README sets the status in bold, so asterisks may stand before and behind it.
            said = readme.split("Status:", 1)[1].strip(" *")
            problems += [f"{README} says {other}, the manifest {unit.manifest.status}" for other in sorted(others)
                         if said.startswith(other)]
        yield judged(problems, ", ".join(seen), unit)
    return each_run(record, find)


@check("consistency.attempts", level=1, title="the list of attempts beside the runs names every run")
def attempts(record: Record) -> Iterator[CheckFinding]:
    """Whoever looks at one run should see how many were started."""
    try:
        listed = _attempts(record)
    except RecordError as error:
        yield failed(str(error))
        return
    if listed is None:
        if record.runs:
            yield not_checked(f"no {ATTEMPTS} beside the runs: how many were started is not known", blocking=False)
        return

    def find(unit: Unit) -> Iterator[CheckFinding]:
        # A name can be used again for another recipe; a line without a digest is compared by its name alone.
        digest = unit.manifest.config_digest
        mine = [row for row in listed if row.get("run") == unit.manifest.name]
        same = [row for row in mine if row.get("config_digest", digest) == digest]
        if not same:
            yield failed(f"{ATTEMPTS} lists no start of {unit.manifest.name!r} with this recipe", unit)
        else:
            yield passed(f"{len(listed)} starts listed, {len(same)} of this run", unit)
    yield from each_run(record, find)


def _attempts(record: Record) -> list[dict[str, object]] | None:
    """Lines of `attempts.jsonl` in what is verified or, for a single run in a folder, beside it."""
    # In a folder of runs the list lies at the top, and in a pack one folder deeper, in `runs/`.
    for entry in record.tree.entries:
        if entry.name.rpartition("/")[2] == ATTEMPTS and entry.kind == "file" and entry.name.count("/") <= 1:
            return jsonl.parse(trees.read(record.tree, entry.name), entry.name)[0]
    # A zip has no neighbours that belong to it. A link beside the run could lead anywhere, so it is not read.
    if isinstance(record.tree, FolderTree):
        beside = Path(record.tree.path.absolute().parent, ATTEMPTS)
        if beside.is_file() and not beside.is_symlink():
            with beside.open("rb") as stream:
                return jsonl.parse(stream.read(trees.MAX_READ_BYTES), ATTEMPTS)[0]
    return None
