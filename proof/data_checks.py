"""What `data check` finds of leaks, near duplicates and answers that steps do not lead to, in material with known ones.

Questions are generated as `workings data make` does; each is then changed in a known way: wrapped in
instructions, put into a history, reworded, given another answer. Counted are the changed ones that are found, and
findings where nothing was changed. GSM8K's questions and solutions are read from `../shared/data/gsm8k`
next to the repository where it is there; of its findings a person has looked at each.
"""

import json
import random
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from proof._plain_questions import QUESTIONS
from tools.result_file import ROOT, write_result
from workings.answers.numbers import parse_number
from workings.data.checking.overlap import find_leaks, near_duplicates, shingles, similarity, words
from workings.data.checking.run import ends_elsewhere, mentions
from workings.data.generators import addition, everyday
from workings.data.importing.completion import split_hashes, take_annotations
from workings.data.traces import Trace

GSM8K = ROOT.parent / "shared" / "data" / "gsm8k"
LEAKS, NEAR, REACHED_PRECISION = 0.95, 0.8, 0.98
TRULY_NOT_REACHED = {"train": {356, 1154, 2770, 3334, 4796, 5350, 6157, 6760, 7444}, "test": set[int]()}
"""Solutions of GSM8K, counted from 0, whose last step gives another number than the answer: each was looked at."""
WRAPPERS = (
    "Solve this step by step.\n\n{}\n\nAnswer with a number.", "Question: {}\nAnswer:", 'Q: "{}" A:',
    "You are a helpful tutor. A student asks: {} Explain your reasoning.", "<question>{}</question>",
    "### Instruction:\n{}\n\n### Response:", "Please answer the question below. {}",
    "{} Think carefully before you answer.", "1. What is your name?\n2. {}\n3. Goodbye.", "**{}**")
SYNONYMS = {"buys": "purchases", "gave": "handed", "gives": "hands", "left": "remaining", "has": "owns", "had": "owned",
            "more": "additional", "makes": "earns", "costs": "is priced at", "sells": "offers", "then": "afterwards",
            "also": "too", "big": "large", "friends": "pals", "uses": "needs", "start": "begin", "small": "little"}
THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
FILLERS = ("really", "just", "also", "now", "today", "please", "usually")
NO_NAMES = frozenset(("how", "what", "the", "she", "he", "they", "there", "each", "after", "every", "this", "when",
                      "for", "his", "her", "then", "and", "its", "their", "one"))


def with_names(question: str, draw: random.Random) -> str:
    """Other names of people and places."""
    names = {name for name in re.findall(r"\b[A-Z][a-z]{2,}\b", question) if name.casefold() not in NO_NAMES}
    for name in sorted(names):
        question = re.sub(rf"\b{name}\b", draw.choice(("Ben", "Ada", "Omar", "Lena", "Priya", "Tom")), question)
    return question


def with_synonyms(question: str, draw: random.Random) -> str:
    """Other words for the same."""
    return " ".join(SYNONYMS.get(word, word) if draw.random() < 0.7 else word for word in question.split(" "))


def with_fillers(question: str, draw: random.Random) -> str:
    """A word more for every fifteen."""
    parts = question.split(" ")
    for _ in range(max(1, len(parts) // 15)):
        parts.insert(draw.randrange(len(parts)), draw.choice(FILLERS))
    return " ".join(parts)


def with_gaps(question: str, draw: random.Random) -> str:
    """A word less for every fifteen; no number."""
    parts = question.split(" ")
    for _ in range(max(1, len(parts) // 15)):
        parts.pop(draw.choice([at for at, part in enumerate(parts) if not re.search(r"\d", part)]))
    return " ".join(parts)


def with_a_beginning(question: str, draw: random.Random) -> str:
    """An instruction before it."""
    return draw.choice(("Please solve the following problem step by step. ", "Here is a question: ")) + question


def in_another_order(question: str, draw: random.Random) -> str:
    """Two sentences exchanged."""
    parts = re.split(r"(?<=[.?!]) ", question)
    if len(parts) > 2:
        at = draw.randrange(len(parts) - 2)
        parts[at], parts[at + 1] = parts[at + 1], parts[at]
    return " ".join(parts)


def in_all_ways(question: str, draw: random.Random) -> str:
    """Names, synonyms and words more, all at once."""
    return with_synonyms(with_names(with_fillers(question, draw), draw), draw)


CHANGES: tuple[Callable[[str, random.Random], str], ...] = (
    with_names, with_synonyms, with_fillers, with_gaps, with_a_beginning, in_another_order, in_all_ways)

# Without those of names: where there are no numbers they are what is asked about.
PLAIN_CHANGES = (with_synonyms, with_fillers, with_gaps, with_a_beginning, in_another_order)


def trace(number: int, prompt: str, **more: Any) -> Trace:
    """A trace that asks this."""
    return Trace(**{"id": f"t{number}", "prompt": prompt, "steps": ("so it is",), "answer": "none"} | more)


def leaks(questions: Sequence[str], innocent: Sequence[str]) -> dict[str, Any]:
    """Of questions in wrappers and in histories those that are found, and findings in innocent ones."""
    asked = {question: f"q{number}" for number, question in enumerate(questions)}
    wrapped = [trace(at, WRAPPERS[at % len(WRAPPERS)].format(question)) for at, question in enumerate(questions)]
    in_history = [trace(at, "And what follows?", history=(("user", one.prompt), ("assistant", "Let me see.")))
                  for at, one in enumerate(wrapped)]
    clean = [trace(at, question) for at, question in enumerate(innocent)]

    def found(traces: Sequence[Trace]) -> int:
        return len(list(find_leaks(list(enumerate(traces)), asked)))
    return {"questions": len(questions), "wrapped_found": found(wrapped), "in_history_found": found(in_history),
            "innocent": len(clean), "innocent_found": found(clean)}


def reworded(questions: Sequence[str]) -> dict[str, Any]:
    """Of questions reworded in each way those that are found among all of them."""
    counts: dict[str, Any] = {}
    for change in CHANGES:
        draw = random.Random(change.__name__)  # noqa: S311 - which words are changed is no secret
        changed = [change(question, draw) for question in questions]
        pairs = [pair for pair in zip(questions, changed, strict=True) if pair[0] != pair[1]]
        texts = [words(text) for pair in pairs for text in pair]
        near = {later for later, _, _ in near_duplicates(texts)}
        counts[change.__name__] = {"changed": len(pairs), "found": sum(2 * at + 1 in near for at in range(len(pairs)))}
    changed, found = (sum(count[key] for count in counts.values()) for key in ("changed", "found"))
    return {"by_change": counts, "changed": changed, "found": found, "recall": found / changed}


def without_numbers(questions: Sequence[str], thresholds: Sequence[float]) -> dict[str, Any]:
    """Of reworded questions without numbers those that are found, and pairs of other questions that are, by threshold.

    Next to them what the check itself finds among all questions and among each one and its rewording.
    """
    texts = [words(question) for question in questions]
    draw = random.Random(26)  # noqa: S311 - as above
    changed = [(text, words(change(question, draw))) for change in PLAIN_CHANGES
               for question, text in zip(questions, texts, strict=True)]
    alike = [similarity(shingles(one), shingles(other)) for one, other in changed if one != other]
    passages = list(map(shingles, texts))
    others = [similarity(one, other) for at, one in enumerate(passages) for other in passages[:at]]
    return {"questions": len(texts), "changed": len(alike), "pairs_of_others": len(others),
            "by_threshold": {f"{least:g}": {"recall": sum(value >= least for value in alike) / len(alike),
                                            "others_found": sum(value >= least for value in others)}
                             for least in thresholds},
            "found": sum(len(list(near_duplicates([one, other]))) for one, other in changed if one != other),
            "others_found": len(list(near_duplicates(texts)))}


def not_reached(steps: Sequence[str], answer: str) -> str:
    """`finding`, `note` or empty, as `data check` says of a trace with these steps."""
    number = parse_number(answer)
    if number is None or mentions(steps, number.value):
        return ""
    return "finding" if ends_elsewhere(steps, number.value) else "note"


def reached(solutions: Sequence[tuple[Sequence[str], str]], truly: set[int]) -> dict[str, Any]:
    """Findings in solutions as they are, and in the same with another number as answer."""
    draw = random.Random(26)  # noqa: S311 - as above
    given = {at: said for at, (steps, answer) in enumerate(solutions) if (said := not_reached(steps, answer))}
    findings = {at for at, said in given.items() if said == "finding"}
    wrong = [(steps, str(int(number.value) + draw.choice((-10, -3, -2, -1, 1, 2, 3, 10, 20, 100))))
             for steps, answer in solutions if (number := parse_number(answer)) is not None]
    found = [not_reached(steps, answer) for steps, answer in wrong]
    return {"solutions": len(solutions), "findings": len(findings), "truly": len(findings & truly),
            "false_findings": len(findings - truly), "notes": list(given.values()).count("note"),
            "injected": len(wrong), "injected_found": found.count("finding"), "injected_noted": found.count("note"),
            "precision": (found.count("finding") + len(findings & truly)) / max(
                1, found.count("finding") + len(findings)),
            "recall": found.count("finding") / len(wrong)}


def gsm8k(split: str) -> tuple[list[str], list[tuple[list[str], str]]]:
    """Questions, and steps and answers, of a split."""
    rows = [json.loads(line) for line in (GSM8K / f"{split}.jsonl").read_text("utf-8").splitlines()]
    solutions = [split_hashes(row["answer"]) for row in rows]
    return [row["question"] for row in rows], [([take_annotations(step)[0] for step in steps], answer)
                                               for steps, answer in solutions]


def main() -> int:
    """Count, write the result file, print a line each; 1 where a goal is missed."""
    traces, items = everyday.make_units(510, 300, seed=26)
    columns = addition.make(300, 10, 26)[0]
    made, held = [one.prompt for one in traces], [item.prompt for item in items]
    values: dict[str, Any] = {
        "without_numbers": without_numbers(QUESTIONS, THRESHOLDS),
        "made": {"leaks": leaks(held, made),
                 "answers": reached([(one.steps, one.answer) for one in (*traces, *columns)], set())}}
    if GSM8K.is_dir():
        train, solutions = gsm8k("train")
        test, others = gsm8k("test")
        short = [question for question in test if len(words(question)) < 25]
        values["gsm8k"] = {"leaks": leaks(short, train), "near_duplicates": reworded(train[::15]),
                           "near_duplicates_in_train": len(list(near_duplicates([words(text) for text in train]))),
                           "answers": {"train": reached(solutions, TRULY_NOT_REACHED["train"]),
                                       "test": reached(others, TRULY_NOT_REACHED["test"])}}
    else:
        values["gsm8k"] = {"absent": "no ../shared/data/gsm8k next to the repository"}
    write_result(values=values)
    print(json.dumps(values, indent=1))
    parts = [values["made"], *([values["gsm8k"]] if GSM8K.is_dir() else [])]
    answers = [part["answers"] for part in parts[:1]] + [*(parts[1]["answers"].values() if len(parts) > 1 else ())]
    held_true = all(part["leaks"]["wrapped_found"] >= LEAKS * part["leaks"]["questions"]
                    and part["leaks"]["in_history_found"] >= LEAKS * part["leaks"]["questions"]
                    and part["leaks"]["innocent_found"] == 0 for part in parts)
    near = min((part["near_duplicates"]["recall"] for part in parts[1:]), default=1.0)
    held_true &= all(answer["precision"] >= REACHED_PRECISION for answer in answers)
    return 0 if held_true and near >= NEAR else 1


if __name__ == "__main__":
    sys.exit(main())
