"""Level 1: texts for people say what their JSON says."""

from collections.abc import Iterator

from workings.evidence.verify.checks import check, each_run, judged
from workings.evidence.verify.record import Record, Unit
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.schemas import MAX_README_BYTES
from workings.record.layout import ENVIRONMENT, ENVIRONMENT_TEXT, README
from workings.record.values import text_view

TEXT_VIEWS = {ENVIRONMENT_TEXT: ENVIRONMENT}
"""Texts that `text_view` makes of a JSON file."""


@check("consistency.views", level=1, title="texts for people say what their JSON says",
       example="another version of Python in the environment's text than in its JSON")
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
