"""How truly scorers judge what named models wrote: agreement with published labels, by kind and by source.

The texts are no part of this repository. A folder has them: `FOLDER/*.jsonl`, one completion a line with `id`,
`source`, `model`, `kind` (number, mathematics, choice, yes_no, short_text, fact), `prompt`, `expected_answer`,
`aliases`, `tolerance`, `completion` and `right` (the label); `FOLDER/sources.json`, by source a licence, whose labels
they are, and where they are published. An `id` is the source (`zsc`: zero_shot_cot), the file or task, the model, and
the place in that file, from 0. Of MMLU-Pro it ends with the `question_id`; its rows are those with a `pred` of 250 that
`random.Random(1).sample` takes from each file in turn, in order of names. Of TheoremQA they are those where `pred` is
what follows "answer is". `proof/scoring_labels.jsonl` names the labels that are wrong, found by reading every
completion outside of short facts on which scorer and label disagreed: `id`, `right` as it should be, or null where it
cannot be said, and the reason. Both agreements are written. Labels of short facts are counted as published.

Next to the scorer `answer` are math-verify alone, and the two filters of lm-evaluation-harness's GSM8K (the number
behind `####`; the last number). Of short facts the order of the models is written too, by people and by the scorer.

    python -m proof.scoring FOLDER/published.jsonl FOLDER/rho_interpreter.jsonl
"""

import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tools.result_file import write_result
from workings.scoring.items import Item
from workings.scoring.judge import score_answer
from workings.scoring.mathematics import load
from workings.scoring.scorers import get_scorer
from workings.scoring.settings import ScoringSettings

LABELS = Path(__file__).parent / "scoring_labels.jsonl"
GOALS = {"rules": (0.995, 0.002), "facts": (0.85, 0.01)}
"""Lowest agreement and highest share of falsely right, outside of short facts and of them."""
_IGNORED = re.compile(r",|\$|.*#### |\.$", re.DOTALL)
_STRICT = re.compile(r"#### (\-?[0-9\.\,]+)")
_FLEXIBLE = re.compile(r"-?[$0-9.,]{2,}|-?[0-9]+")

Row = dict[str, Any]
Score = Callable[[Row], bool]


def workings(scorer: str) -> Score:
    """A scorer of this project, as `workings eval` uses it."""
    settings, score = ScoringSettings(scorer=scorer), get_scorer(scorer).score

    def judged(row: Row) -> bool:
        item = Item(id=row["id"], prompt=row["prompt"], expected_answer=row["expected_answer"],
                    aliases=tuple(row["aliases"]), tolerance=row["tolerance"])
        return score_answer(item, row["completion"], score, settings, truncated=False)[1] == 1
    return judged


def math_verify(row: Row) -> bool:
    """math-verify alone, given the whole completion."""
    from math_verify import parse, verify

    return bool(verify(parse(f"${row['expected_answer']}$"), parse(row["completion"][-2_000:])))


def harness(pattern: re.Pattern[str], at: int) -> Score:
    """The answer that a filter of lm-evaluation-harness finds, compared as its GSM8K task does."""
    def judged(row: Row) -> bool:
        found = pattern.findall(row["completion"])
        return bool(found) and _IGNORED.sub("", found[at]) == _IGNORED.sub("", row["expected_answer"])
    return judged


OTHERS: dict[str, tuple[Score, tuple[str, ...]]] = {
    "math_verify": (math_verify, ("number", "mathematics")), "strict_match": (harness(_STRICT, 0), ("number",)),
    "flexible_extract": (harness(_FLEXIBLE, -1), ("number",))}
"""Other scorers, with the kinds that they are for."""


def agreement(rows: Sequence[Row], judged: Sequence[bool]) -> dict[str, Any]:
    """How verdicts agree with labels."""
    falsely_right = sum(given and not row["right"] for row, given in zip(rows, judged, strict=True))
    falsely_wrong = sum(row["right"] and not given for row, given in zip(rows, judged, strict=True))
    count = len(rows)
    return {"labelled": count, "agreement": 1 - (falsely_right + falsely_wrong) / count,
            "falsely_right": falsely_right, "falsely_wrong": falsely_wrong}


def corrected(rows: Iterable[Row]) -> list[Row]:
    """The rows with the labels that were corrected by hand."""
    mended = {row["id"]: row["right"] for row in map(json.loads, LABELS.read_text("utf-8").splitlines())}
    found = [{**row, "right": mended.get(row["id"], row["right"])} for row in rows]
    return [row for row in found if row["right"] is not None]


def by_kind(rows: Sequence[Row], judged: dict[str, bool]) -> dict[str, Any]:
    """Agreement of each kind, with its sources and the other scorers that are for it."""
    kinds: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        kinds[row["kind"]].append(row)
    found: dict[str, Any] = {}
    for kind, of_kind in sorted(kinds.items()):
        found[kind] = agreement(of_kind, [judged[row["id"]] for row in of_kind])
        found[kind]["sources"] = {
            source: agreement(of_source, [judged[row["id"]] for row in of_source])
            for source in sorted({row["source"] for row in of_kind})
            if (of_source := [row for row in of_kind if row["source"] == source])}
        for name, (score, fits) in OTHERS.items():
            if kind in fits:
                found[kind][name] = agreement(of_kind, [score(row) for row in of_kind])
    return found


def model_order(rows: Iterable[Row], judged: dict[str, bool]) -> dict[str, Any]:
    """The share that people call right of each model's short facts, and the share that the scorer does."""
    models: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["kind"] == "fact" and row["source"] == "EVOUNA":
            models[row["model"]].append(row)
    shares = {model: {"answers": len(given), "people": sum(row["right"] for row in given) / len(given),
                      "scorer": sum(judged[row["id"]] for row in given) / len(given)}
              for model, given in models.items()}
    return dict(sorted(shares.items(), key=lambda each: -each[1]["people"]))


def _without_facts(rows: Sequence[Row], mended: Sequence[Row], judged: dict[str, bool]) -> dict[str, Any]:
    """Agreement outside of short facts of the rows of one file, by corrected labels and by those as published."""
    ids = {row["id"] for row in rows}
    return {name: agreement(kept, [judged[row["id"]] for row in kept]) for name, given in (
        ("corrected", [row for row in mended if row["id"] in ids]), ("as_published", rows))
        if (kept := [row for row in given if row["kind"] != "fact"])}


def main(words: Sequence[str]) -> int:
    """Judge the completions of the files, write the result file, print a line each; 1 where a goal is missed."""
    files = [Path(word) for word in words]
    read = {file.stem: [json.loads(line) for line in file.read_text("utf-8").splitlines()] for file in files}
    rows, folder = [row for given in read.values() for row in given], files[0].parent
    load()
    begun, score = time.process_time(), workings("answer")
    judged = {row["id"]: score(row) for row in rows}
    seconds = (time.process_time() - begun) * 10_000 / len(rows)
    mended = corrected(rows)
    kinds = by_kind(mended, judged)
    rules, published = ([row for row in given if row["kind"] != "fact"] for given in (mended, rows))
    labels = {row["id"]: row["right"] for row in mended}
    by_file = {stem: _without_facts(given, mended, judged) for stem, given in read.items()}
    values = {
        "kinds": kinds, "files": by_file, "without_facts": agreement(rules, [judged[row["id"]] for row in rules]),
        "without_facts_as_published": agreement(published, [judged[row["id"]] for row in published]),
        "corrections": {"to_right": sum(labels.get(row["id"]) is True and not row["right"] for row in rows),
                        "to_wrong": sum(labels.get(row["id"]) is False and row["right"] for row in rows),
                        "left_out": len(rows) - len(mended)},
        "models_on_facts": model_order(mended, judged), "cpu_seconds_for_10000": seconds,
        "sources": json.loads((folder / "sources.json").read_text("utf-8"))}
    write_result(packages=["math-verify", "sympy"], words=f"{' '.join(f'FOLDER/{file.name}' for file in files)}",
                 values=values)
    for kind, found in kinds.items():
        print(kind, {key: value for key, value in found.items() if key != "sources"})
    facts, others = kinds["fact"], values["without_facts"]
    order = [share["scorer"] for share in values["models_on_facts"].values()]
    print("without facts", others, "models on facts", values["models_on_facts"], f"{seconds:.1f} s for 10,000")
    reached = [found["agreement"] >= lowest and found["falsely_right"] <= highest * found["labelled"]
               for found, (lowest, highest) in ((others, GOALS["rules"]), (facts, GOALS["facts"]))]
    return 0 if all(reached) and order == sorted(order, reverse=True) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
