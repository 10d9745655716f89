"""How scorers judge every labelled answer: agreement, answers that are falsely right, and those that could be argued.

The strings stand in `tests/scoring`, each with what was expected and whether a careful reader would call it right;
answers of mathematics are judged by `answer` and by `math`. The sets of `held_out.jsonl` were labelled before any
rule had seen them, each when the rules had been mended for those before it: `--first-try SET` writes how a set was
judged then, with its questions, without them and by `math`, into a file of its own, and is run once. Rows with a `line`
answer that line of GSM8K's test split (or of the `split` they name), whose question the scorer is given where the file
is there; one that cannot be judged without has it in our words (`asked`).
The rows that could be argued are those of the table in `docs/evaluation.md`. GSM8K's questions, and its expected
answers, written in six forms behind their solutions, are read from `../shared/data/gsm8k` beside the repository.
"""

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tools.result_file import ROOT, write_result
from workings.answers.extract import extract
from workings.answers.numbers import parse_number
from workings.answers.same_answer import same_answer
from workings.scoring.items import Item, read_items
from workings.scoring.judge import Judgement, judge
from workings.scoring.scorers import load_scorer
from workings.scoring.settings import ScoringSettings

RESULT = Path(__file__).parent / "scoring.json"
FIRST_TRY = Path(__file__).parent / "scoring_first_try.json"
LABELLED = ROOT / "tests" / "scoring"
GSM8K = ROOT.parent / "shared" / "data" / "gsm8k" / "test.jsonl"
AGREEMENT = 0.99
FORMS = {
    "hashes": "{steps}#### {gold}", "answer_tag": "<reasoning>{steps}</reasoning><answer>{gold}</answer>",
    "boxed": "{steps} so \\boxed{{{gold}}}.", "answer_phrase": "{steps}The final answer is ${gold}.",
    "after_think": "<think>{steps}</think>\n\n**{gold}**", "last_number": "{steps}So in the end she has {gold} apples."}

Row = dict[str, Any]
Questions = Mapping[tuple[str, int], str]
"""GSM8K's questions by split and line, from 1."""


def rows_of(path: Path) -> list[Row]:
    """Labelled answers of a file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def arguable() -> list[Row]:
    """The rows of the documented table."""
    page = (ROOT / "docs" / "evaluation.md").read_text("utf-8")
    return [{"kind": "arguable", "completion": completion, "expected": expected, "right": label == "right"}
            for completion, expected, label in re.findall(r"^\| `(.+?)` \| `(.+?)` \| (right|wrong) \|$", page,
                                                          re.MULTILINE)]


def gsm8k() -> Iterable[Row]:
    """GSM8K's expected answers in every form, each right."""
    solutions = [json.loads(line)["answer"].rsplit("####", 1)[0] for line in GSM8K.read_text("utf-8").splitlines()]
    for item, steps in zip(read_items(GSM8K), solutions, strict=True):
        for name, form in FORMS.items():
            yield {"kind": name, "completion": form.format(steps=steps, gold=item.expected_answer),
                   "expected": item.expected_answer, "right": True}


def questions() -> Questions:
    """GSM8K's questions, of both splits."""
    return {(split, line): item.prompt for split in ("test", "train")
            for line, item in enumerate(read_items(GSM8K.with_name(f"{split}.jsonl")), start=1)}


def last_sentences() -> dict[str, Any]:
    """Of GSM8K's solutions without their mark, which end as people end them, what is taken for the answer.

    Not every last sentence says the answer: some say another number, and the answer nowhere. Then the answer is changed
    where the last sentence says it: nothing of what is found should be right any more.
    """
    found: dict[str, int] = {"right": 0, "another_number": 0, "none": 0}
    changed = falsely_right = 0
    for path in (GSM8K.with_name("train.jsonl"), GSM8K):
        for item, line in zip(read_items(path), path.read_text("utf-8").splitlines(), strict=True):
            steps = re.sub(r"<<[^<>]*>>", "", json.loads(line)["answer"].rsplit("####", 1)[0]).strip()
            given = extract(steps, "number", question=item.prompt).text
            right = bool(given) and same_answer(given, item.expected_answer)
            found["none" if not given else "right" if right else "another_number"] += 1
            steps_before, _, last = steps.rpartition("\n")
            digits = item.expected_answer.replace(",", "")
            wrong = re.sub(rf"(?<![\d.]){digits}(?!\d|\.\d)", f"{digits}7", last.replace(",", ""))
            if digits.isdigit() and wrong != last.replace(",", ""):
                changed += 1
                falsely_right += same_answer(extract(
                    f"{steps_before}\n{wrong}", "number", question=item.prompt).text, item.expected_answer)
    return {"solutions": sum(found.values()), **found, "changed": changed, "changed_falsely_right": falsely_right}


_WRITTEN = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
_OTHERS = ({"yes", "no"}, {"true", "false"}, set("ABCDE"))


def with_other_answers(rows: Iterable[Row]) -> Iterable[Row]:
    """Right answers where another one is expected, which makes them wrong.

    Another number that the completion says, another letter, no for yes. What is a hundred times as much may be the
    same in percent.
    """
    for row in rows:
        number, known = parse_number(row["expected"]), row["expected"].strip("()")
        if not row["right"] or "scorer" in row:
            continue
        others = {written for written in _WRITTEN.findall(row["completion"]) if number and (
            (other := parse_number(written)) is None or not {other.value / 100, other.value, 100 * other.value} & {
                number.value})}
        others |= next((answers - {known} for answers in _OTHERS if known in answers), set())
        yield from ({**row, "expected": other, "right": False} for other in sorted(others))


_EQUATION = re.compile(r"(?:(?<=\s)|^)[-$€£\d.,%/()+*x×÷–][-$€£\d.,%/()\s+*x×÷–]*=\s*")
_LEADS = re.compile(r"(?:(?:so|therefore|thus|then|hence|in total|finally|and|next|now|first),?\s+)+", re.IGNORECASE)


def two_clauses() -> dict[str, Any]:
    """Of the last two steps of GSM8K's solutions in one sentence, in both orders, which number is taken for the answer.

    Equations are reduced to their results; both steps say one number, and the last one alone is right.
    """
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for path in (GSM8K.with_name("train.jsonl"), GSM8K):
        for item, line in zip(read_items(path), path.read_text("utf-8").splitlines(), strict=True):
            steps = re.sub(r"<<[^<>]*>>", "", json.loads(line)["answer"].rsplit("####", 1)[0]).strip().split("\n")[-2:]
            told = [_LEADS.sub("", _EQUATION.sub("", step), count=1).strip(" .") for step in steps]
            said = [extract(f"{step}.", "number").text for step in told]
            right = [bool(text) and same_answer(text, item.expected_answer) for text in said]
            if right != [False, True] or not said[0] or "=" in "".join(told):
                continue
            for name, sentence in (("right_last", ", and ".join(told)), ("right_first", ", and ".join(told[::-1]))):
                for way, question in (("", ""), ("_with_questions", item.prompt)):
                    given = extract(f"{sentence}.", "number", question=question).text
                    found[name + way]["none" if not given else "right" if same_answer(given, item.expected_answer)
                                      else "other_number"] += 1
    return {name: {"sentences": counts.total(), **counts} for name, counts in found.items()}


def judged(rows: Sequence[Row], scorer: str, version: int = 2, asked: Questions = MappingProxyType({})
           ) -> dict[str, Any]:
    """How a scorer's verdicts agree with the labels, by kind, and every string on which they do not.

    It is given the question where ``asked`` has the row's line.
    """
    kinds: dict[str, dict[str, int]] = {}
    falsely: dict[str, list[str]] = {"falsely_right": [], "falsely_wrong": []}
    scores = {name: load_scorer(name, version).score for name in {scorer, *(row.get("scorer", scorer) for row in rows)}}
    count = agreeing = 0
    for row in rows:
        name = row.get("scorer", scorer)
        settings = ScoringSettings(scorer=name, form=row.get("form", "any"), extraction_version=version)
        prompt = asked.get((row.get("split", "test"), row.get("line")), row.get("asked", "p"))
        item = Item(id="a", prompt=prompt, expected_answer=row["expected"])
        try:
            judgement = judge(item, row["completion"], scores[name], settings, truncated=row.get("truncated", False))
        except TimeoutError:  # an error for whoever scores, and 0
            judgement = Judgement()
        right = judgement.score == 1
        count += 1
        agreeing += right == row["right"]
        of_kind = kinds.setdefault(row["kind"], {"labelled": 0, "agreeing": 0})
        of_kind["labelled"] += 1
        of_kind["agreeing"] += right == row["right"]
        if right != row["right"]:
            falsely["falsely_right" if right else "falsely_wrong"].append(
                f"{row['completion'][-120:]} | expected {row['expected']}")
    return {"labelled": count, "agreeing": agreeing, "agreement": agreeing / count,
            **{name: len(found) for name, found in falsely.items()}, "kinds": kinds,
            "strings": {name: found[:50] for name, found in falsely.items() if found}}


def main(words: Sequence[str]) -> int:
    """Judge, write the result file, print a line each; 1 where a goal is missed."""
    answers, mathematics = rows_of(LABELLED / "answers.jsonl"), rows_of(LABELLED / "mathematics.jsonl")
    held_out = rows_of(LABELLED / "held_out.jsonl")
    if words:
        known = json.loads(FIRST_TRY.read_text("utf-8"))["values"] if FIRST_TRY.is_file() else {}
        rows = [row for row in held_out if row["set"] == words[-1]]
        write_result(FIRST_TRY, what="How answers that no rule had seen were judged at the first try, set by set.",
                     command="python -m proof.scoring --first-try SET", packages=["math-verify", "sympy"],
                     values={**known, words[-1]: judged(rows, "answer", asked=questions()),
                             f"{words[-1]}_without_questions": judged(rows, "answer"),
                             f"{words[-1]}_by_math": judged(rows, "math", asked=questions())})
        return 0
    values: dict[str, Any] = {
        "held_out": judged(held_out, "answer"),
        "answers": judged(answers, "answer"), "answers_by_version_1": judged(answers, "answer", version=1),
        "answers_by_math": judged(answers, "math"), "arguable": judged(arguable(), "answer"),
        "mathematics": judged(mathematics, "math"), "mathematics_by_answer": judged(mathematics, "answer")}
    absent = {"absent": "no ../shared/data/gsm8k beside the repository"}
    values["held_out_with_questions"] = judged(held_out, "answer", asked=questions()) if GSM8K.is_file() else absent
    values["other_answers"] = judged(list(with_other_answers(held_out)), "answer",
                                     asked=questions()) if GSM8K.is_file() else absent
    values["gsm8k"] = judged(list(gsm8k()), "answer") if GSM8K.is_file() else absent
    values["gsm8k_last_sentences"] = last_sentences() if GSM8K.is_file() else absent
    # What an earlier version got wrong is known, and of no use as strings.
    values["answers_by_version_1"].pop("strings")
    values["gsm8k_two_clauses"] = two_clauses() if GSM8K.is_file() else absent
    write_result(RESULT, what="How scorers judge every labelled answer.", command="python -m proof.scoring",
                 packages=["math-verify", "sympy"], values=values)
    for name, found in values.items():
        print(name, {key: value for key, value in found.items() if not isinstance(value, dict)})
        for kind, strings in found.get("strings", {}).items():
            print(*(f"  {kind}: {string}" for string in strings), sep="\n")
    reached = all(values[name]["agreement"] >= AGREEMENT and values[name]["falsely_right"] == 0
                  for name in ("answers", "answers_by_math", "mathematics", "arguable",
                               "held_out_with_questions" if GSM8K.is_file() else "held_out"))
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
