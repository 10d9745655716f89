"""The checker of equations: what it finds in labelled texts, in generated chains with one error each, and in GSM8K.

Precision and recall of the texts in `tests/data/equations`, the first written before the checker; of chains of every
kind that is taught, in seven notations; and the findings in the published solutions of GSM8K, which is read from
`../shared/data/gsm8k` next to the repository where it is there.
"""

import json
import random
import re
import sys
from collections.abc import Iterator
from typing import Any

from tests.data.labelled import FOLDER, Labelled, found_in, written
from tools.result_file import ROOT, write_result
from workings.data.equations.check import find_equations
from workings.data.generators import addition, everyday

GSM8K = ROOT.parent / "shared" / "data" / "gsm8k"
PRECISION, RECALL = 0.98, 0.9
_RIGHT_SIDE = re.compile(r"=(-?\d+)(?![\d.])")


def taught(count: int, seed: int) -> Iterator[Labelled]:
    """Generated chains of every kind that is taught in several notations, each once right and once with one error."""
    draw = random.Random(seed)  # noqa: S311 - the same chains each time
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


def gsm8k(split: str) -> dict[str, Any]:
    """How many equations are right, wrong and not read, and how many solutions have a wrong one."""
    solutions = [json.loads(line)["answer"] for line in (GSM8K / f"{split}.jsonl").read_text("utf-8").splitlines()]
    found = [[equation.verdict for equation in find_equations(solution)] for solution in solutions]
    return {"solutions": len(solutions), "with_a_wrong_equation": sum("wrong" in verdicts for verdicts in found),
            **{verdict.replace(" ", "_"): sum(verdicts.count(verdict) for verdicts in found)
               for verdict in ("right", "wrong", "not read")}}


def main() -> int:
    """Count, write the result file, print a line each; 1 where a goal is missed."""
    texts = {path.stem: written(path.name) for path in sorted(FOLDER.glob("*.txt"))}
    values: dict[str, Any] = {name: {kind: found_in([one for one in every if one.kind == kind])
                                     for kind in ("mathematics", "prose")} for name, every in texts.items()}
    values["taught"] = found_in(list(taught(1000, seed=26)))
    reached = all(counted["precision"] >= PRECISION for name in texts for counted in values[name].values())
    reached &= values["taught"]["precision"] >= PRECISION and values["taught"]["recall"] >= RECALL
    values["gsm8k"] = ({split: gsm8k(split) for split in ("train", "test")} if GSM8K.is_dir()
                       else {"absent": "no ../shared/data/gsm8k next to the repository"})
    write_result(values=values)
    for name, counted in values.items():
        print(name, json.dumps(counted))
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
