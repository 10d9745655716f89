"""Counts odd English per 1,000 lines: ``python tools/idioms.py [FOLDER ...] [--list] [--at-most RATE]``.

Every phrase below is correct, but technical writers rarely use it, or use it in another sense. ``--list`` prints each
line that has one; with ``--at-most`` the exit code is 1 when a folder has more.
"""

import argparse
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "docs", "tests", "proof", "benchmarks")
SUFFIXES = {".py", ".md", ".jinja", ".js", ".yaml", ".html", ".css"}

IDIOMS = {
    "beside": r"(?i:\bbeside\b)",
    "stand, stands": r"(?i:\bstands?\b)",
    "of its own, of their own": r"(?i:\bof (?:its|their) own\b)",
    "lie, lies": r"(?i:\blies?\b)",
    "nobody, somebody, whoever": r"(?i:\b(?:nobody|somebody|whoever)\b)",
    "is none, are none": r"(?<![Tt]here )\b(?:[Ii]s|[Aa]re) none\b",  # not Python's `is None`, nor "there is none"
    "of which": r"(?i:\bof which\b)",
    "taken for": r"(?i:\btaken for\b)",
    "whatever": r"(?i:\bwhatever\b)",
    "for people": r"(?i:\bfor people\b)",
    "goes on (resumes)": r"(?i:\b(?:go|goes|going|went) on(?: with| from| at| after| where|[.,;:]))",
    "held against": r"(?i:\b(?:held|hold|holds) \S+ against\b|\bheld against\b)",
    "is said, are said": r"(?i:\b(?:is|are) said\b)",
    "in silence": r"(?i:\bin silence\b)",
    "drawn, draws (sampled)": r"(?i:\b(?:drawn|draws|drew) (?:again|by|with|from|to|before|for)\b)",
    "judged (scored)": r"(?i:\b(?:be|is|are|was|were|not|and) judged\b)",
    "made again": r"(?i:\bmade again\b)",
    "stays open": r"(?i:\bstays? open\b)",
    "says otherwise": r"(?i:\bsays? otherwise\b)",
    "behind (after)": r"(?i:\bbehind (?:a|an|the|its|it|each|all|one|them|this|that|another)\b)",
    "so many": r"(?i:\bso many\b)",
    "a token, a second (per)": (
        r"(?i:\b(?:nats|tokens|rows|bytes|steps|seconds) an? (?:token|second|step|update|epoch|device|row)\b)"),
    "a person's, the person": r"(?i:\ba person's\b|\bthe person\b)",
    "the two that": r"(?i:\bthe two that\b)",
    "taken out of, taken again": r"(?i:\btaken (?:out of|again|over)\b)",
    "where none": r"(?i:\bwhere none\b)",
}


class Occurrence(NamedTuple):
    """One idiom in one line."""

    place: str
    idiom: str
    line: str


def occurrences(path: Path) -> list[Occurrence]:
    """The idioms of one file, in its order."""
    return [Occurrence(f"{path.relative_to(ROOT)}:{number}", idiom, line.strip())
            for number, line in enumerate(_prose(path).splitlines(), 1)
            for idiom, pattern in IDIOMS.items()
            for _ in re.finditer(pattern, line)]


def _prose(path: Path) -> str:
    """The text of a file; in Markdown without comments, which name files and values."""
    text = path.read_text(encoding="utf-8")
    return re.sub(r"<!--.*?-->", "", text) if path.suffix == ".md" else text


def text_files(folder: Path) -> list[Path]:
    """Source and documentation below a folder (or the file itself), without data."""
    paths = [folder] if folder.is_file() else sorted(folder.rglob("*"))
    return [path for path in paths if path.suffix in SUFFIXES and path.is_file()]


def main(arguments: list[str]) -> int:
    """Print each folder's rate and its most frequent idioms. Returns an exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.idioms")
    parser.add_argument("folders", nargs="*", default=FOLDERS, metavar="FOLDER",
                        help="folders or files of this repository")
    parser.add_argument("--list", action="store_true", help="print each line that has an idiom")
    parser.add_argument("--at-most", type=float, metavar="RATE", help="exit with 1 above this number per 1,000 lines")
    options = parser.parse_args(arguments)
    rates = [_report(folder, each=options.list) for folder in options.folders]
    return int(options.at_most is not None and max(rates) > options.at_most)


def _report(folder: str, *, each: bool) -> float:
    """Print one folder's counts. Returns its idioms per 1,000 lines."""
    paths = text_files(ROOT / folder)
    found = [occurrence for path in paths for occurrence in occurrences(path)]
    if each:
        print("\n".join(f"{one.place}: {one.idiom}: {one.line}" for one in found))
    lines = sum(path.read_text(encoding="utf-8").count("\n") for path in paths)
    rate = 1000 * len(found) / max(lines, 1)
    counts = {idiom: sum(one.idiom == idiom for one in found) for idiom in IDIOMS}
    most = sorted((idiom for idiom in counts if counts[idiom]), key=lambda idiom: -counts[idiom])
    print(f"{folder:<12} {rate:5.1f} per 1,000 lines: {len(found)} in {lines:,} lines"
          f" ({', '.join(f'{idiom} {counts[idiom]}' for idiom in most) or 'no idioms'})")
    return rate


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
