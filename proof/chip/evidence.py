"""The folder of evidence: one JSON file a part, written after every row, and one table of all of them."""

import json
import platform
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from proof.chip.part import Chip, Part
from proof.chip.places import ROOT, put
from tools.result_file import commit, machine
from workings.engines.source_digest import library_versions, source_digest
from workings.record.redact import without_home

PACKAGES = ("workings", "jax", "jaxlib", "jax-cuda12-plugin", "jax-cuda13-plugin", "libtpu", "torch", "triton",
            "transformers", "peft", "bitsandbytes", "trl", "liger-kernel", "numpy")
FINISHED = ("done", "absent", "refused")
"""What is not tried again. ``absent``: not on this machine; ``refused``: the product says that it does not do it.
The others are ``failed`` and ``stopped``, by the limit of time."""
TABLE = "table.md"


class Evidence:
    """One part's file."""

    def __init__(self, folder: Path, part: Part, chip: Chip) -> None:
        self.path, self.part = folder / f"{part.name}.json", part
        earlier = json.loads(self.path.read_text(encoding="utf-8")) if self.path.is_file() else {}
        if earlier and earlier["chip"] != chip.as_json():
            raise SystemExit(f"{self.path} is about {earlier['chip']}, and this is {chip.as_json()}: "
                             "choose another --out, or move the file away")
        self.rows: dict[str, dict[str, Any]] = earlier.get("rows", {})
        self.failures: list[dict[str, Any]] = earlier.get("failures", [])
        self.chip = chip

    def left(self) -> list[str]:
        """Rows that are not finished, in order; those that went wrong before come last."""
        status = {name: self.rows.get(name, {}).get("status", "") for name in self.part.rows(self.chip)}
        return sorted((name for name, said in status.items() if said not in FINISHED), key=lambda name: status[name])

    def add(self, name: str, row: dict[str, Any]) -> None:
        """Keep a row, with the code and the day that it comes from. What went wrong once is kept for good."""
        if "error" in row:
            row = row | {"error": without_folders(row["error"])}
        row = row | {"date": datetime.now(UTC).isoformat(timespec="seconds"), "code": code()}
        self.rows[name] = row
        if row["status"] in ("failed", "stopped"):
            self.failures.append({"row": name} | row)
        self.write()

    def write(self) -> None:
        """The file as a whole, put in place at once, so that no moment of dying leaves half of it."""
        values = {"what": self.part.shows, "command": " ".join(["python -m proof.chip", *sys.argv[1:]]),
                  "chip": self.chip.as_json(), "machine": machine(), "python": platform.python_version(),
                  "versions": library_versions(PACKAGES), "rows": self.rows, "failures": self.failures}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        put(self.path, json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def without_folders(text: str) -> str:
    """A message in which files of the checkout and of the interpreter have their path within it, and a home is `~`."""
    for folder in (sys.prefix, ROOT):  # one may contain the other
        text = text.replace(f"{folder}/", "")
    return without_home(text)


def code() -> dict[str, str]:
    """Which code measured: the commit, where there is a checkout, and the digest of the sources, which is always."""
    try:
        known = commit()
    except (OSError, subprocess.SubprocessError):
        known = "absent: no git checkout here"
    return {"commit": known, "sources": source_digest("workings", "proof.chip")}


def write_table(folder: Path, parts: Iterable[Part]) -> str:
    """`table.md` of everything that is in the folder, and its text."""
    found = [(part, json.loads((folder / f"{part.name}.json").read_text(encoding="utf-8")))
             for part in parts if (folder / f"{part.name}.json").is_file()]
    if not found:
        return ""
    chip, versions = found[-1][1]["chip"], found[-1][1]["versions"]
    lines = [f"# {chip['kind'] or chip['platform']}" + (" (tiny models: a trial, no evidence)" if chip["tiny"] else ""),
             "", ", ".join(f"{name} {version}" for name, version in versions.items() if version != "not installed"), "",
             "| part | row | status | result | seconds |", "|---|---|---|---|---|"]
    for part, values in found:
        lines += [f"| {part.name} | {name} | {row['status']} | {told(row, part.told)} | {row.get('seconds', '')} |"
                  for name, row in values["rows"].items()]
    failures = [(part, one) for part, values in found for one in values["failures"]]
    if failures:
        lines += ["", "## What went wrong", ""]
        lines += [f"- {part.name}, {one['row']}, {one['date']}: {last_line(one.get('error', one['status']))}"
                  for part, one in failures]
    text = "\n".join(lines) + "\n"
    (folder / TABLE).write_text(text, encoding="utf-8")
    return text


def told(row: dict[str, Any], keys: Iterable[str]) -> str:
    """A row's result in a cell: the keys that its part shows, or why it is missing."""
    if row["status"] != "done":
        text = row.get("error", "")
        # A refusal is three short lines; the first says what was asked for.
        return (" ".join(text.split())[:200] if row["status"] == "refused" else last_line(text)).replace("|", "\\|")
    values = {key: row[key] for key in ("holds", *keys) if key in row}
    return "; ".join(f"{key} {short(value)}" for key, value in values.items()).replace("|", "\\|")


def short(value: Any) -> str:
    """A value in a few characters."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def last_line(text: str) -> str:
    """The last line that says something, cut to a readable length."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""
