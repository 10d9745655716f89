"""Texts whose wrong equations are known: written by hand (`equations/*.txt`), and chains with one error each."""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from workings.data.equations.check import find_equations
from workings.data.generators import addition, everyday

FOLDER = Path(__file__).parent / "equations"
_RIGHT_SIDE = re.compile(r"=(-?\d+)(?![\d.])")


@dataclass(frozen=True)
class Labelled:
    """A text, its kind, and where its wrong equations stand."""

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


def taught(count: int, seed: int) -> Iterator[Labelled]:
    """Generated chains of every kind that is taught in several notations, each once right and once with one error."""
    draw = random.Random(seed)
    traces = [*everyday.make_units(count // 2, 1, seed)[0], *addition.make(count // 2, 1, seed)[0]]
    for number, trace in enumerate(traces):
        text = "\n".join(trace.steps)
        places = [match for match in _RIGHT_SIDE.finditer(text) if _calculates(text[:match.start()])]
        notation = _NOTATIONS[number % len(_NOTATIONS)]
        yield Labelled("taught", notation(text), ())
        if places:
            place = draw.choice(places)
            wrong = _another(int(place[1]), draw)
            begin = re.search(r"[-+*/\d(). ]*$", text[:place.start()])
            assert begin is not None
            marked = f"{text[:begin.start()]}⟦{begin.group()}={wrong}⟧{text[place.end():]}"
            changed = notation(marked)
            start, end = changed.index("⟦"), changed.index("⟧") - 1
            yield Labelled("taught", changed.replace("⟦", "").replace("⟧", ""), ((start, end),))


def _calculates(before: str) -> bool:
    return bool(re.search(r"\d\)?[-+*/]\(?-?\d+\)?$", before))


def _another(value: int, draw: random.Random) -> int:
    """Another number, as models get it wrong: by one, by a digit, by a carry, by a sign."""
    digits = list(str(abs(value)))
    place = draw.randrange(len(digits))
    digits[place] = draw.choice([digit for digit in "123456789" if digit != digits[place]])
    changed = draw.choice([value + 1, value - 1, value + 10, value - 10, value * 10, int("".join(digits))])
    return changed if changed != value else value + 1


def _spaced(text: str) -> str:
    return re.sub(r"(?<=[\d)])([-+*/=])(?=[-\d(⟦])", r" \1 ", text)


_NOTATIONS = (
    lambda text: text,
    _spaced,
    lambda text: _spaced(text).replace("*", "×"),
    lambda text: _spaced(text).replace("*", r"\times"),
    lambda text: re.sub(r"[-+*/\d()=⟦⟧]*=[-\d]+⟧?", lambda match: f"${match.group()}$", text).replace("*", r" \cdot "),
    lambda text: text.replace("*", "x"),
    lambda text: text.replace("=", " = "),
)


def found_in(texts: list[Labelled]) -> dict[str, int | float]:
    """What the checker finds: findings, those that are none, errors, those that are found; precision and recall."""
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
