"""Texts whose wrong equations are known, written by hand (`equations/*.txt`)."""

from dataclasses import dataclass
from pathlib import Path

from workings.data.equations.check import find_equations

FOLDER = Path(__file__).parent / "equations"


@dataclass(frozen=True)
class Labelled:
    """A text, its kind, and the places of its wrong equations."""

    kind: str
    text: str
    wrong: tuple[tuple[int, int], ...]


def written(name: str) -> list[Labelled]:
    """The texts of a file: a wrong equation is between ⟦ and ⟧, ⏎ is a line break, `## ` begins a kind."""
    kind, found = "", []
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            kind = line[3:]
        elif line and not line.startswith("#"):
            text, spans, start = "", [], 0
            for character in line.replace("⏎", "\n"):
                if character == "⟦":
                    start = len(text)
                elif character == "⟧":
                    spans.append((start, len(text)))
                else:
                    text += character
            found.append(Labelled(kind, text, tuple(spans)))
    return found


def wrong_equations(text: str) -> list[str]:
    """The equations of a text that do not hold beyond doubt, as written."""
    return [one.written for one in find_equations(text) if one.verdict == "wrong" and not one.doubt]


def found_in(texts: list[Labelled]) -> dict[str, int | float]:
    """What the checker finds: findings, false ones, errors, those that are found; precision and recall."""
    findings = false = errors = hit = 0
    for labelled in texts:
        wrong = [found for found in find_equations(labelled.text) if found.verdict == "wrong"]
        findings += len(wrong)
        false += sum(not any(found.start < end and start < found.end for start, end in labelled.wrong)
                     for found in wrong)
        errors += len(labelled.wrong)
        hit += sum(any(found.start < end and start < found.end for found in wrong) for start, end in labelled.wrong)
    return {"texts": len(texts), "errors": errors, "findings": findings, "false_findings": false, "errors_found": hit,
            "precision": (findings - false) / findings if findings else 1.0, "recall": hit / errors if errors else 1.0}
