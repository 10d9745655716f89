"""What the checks of equations find in public chains, and whether the first wrong equation is the first error.

`--chains FOLDER` holds public files as they are published: `abel.jsonl` (GAIR-NLP/abel, `outputs/gsm8k/7b.jsonl`),
`adapters.json` (AGI-Edgerunners/LLM-Adapters, `ft-training_set/math_data.json`), and of dvlab-research/MR-GSM8K
`eval_results/gpt4-grading/*_eval_results.json` under their names with `mr_` before them. People labelled the first
wrong step of each solution there.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.data.labelled import wrong_equations
from tools.result_file import write_result
from workings.data.equations.check import find_equations
from workings.evaluation.first_wrong_step import first_wrong_step


def checked(texts: Sequence[str]) -> dict[str, int]:
    """How many chains have equations, wrong ones, and ones that may be meant otherwise."""
    counts = Counter[str](chains=len(texts))
    for text in texts:
        verdicts = Counter(equation.verdict for equation in find_equations(text))
        counts["equations"] += verdicts["right"] + verdicts["wrong"]
        counts["not_read"] += verdicts["not read"]
        counts["with_a_wrong_equation"] += bool(wrong_equations(text))
        counts["with_a_doubtful_equation"] += any(equation.doubt for equation in find_equations(text))
    return dict(counts)


def against_labels(solutions: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Where the first wrong equation is, relative to the first wrong step by people."""
    counts = Counter[str](solutions=len(solutions), marked=0, at_the_labelled_step=0, later=0, earlier=0)
    for solution in solutions:
        steps = [" ".join(step.split()) for step in solution["model_output_steps"]]
        text = "\n".join(steps)
        found = first_wrong_step(text)
        if found is None:
            continue
        # A step is a line, because white space within one was taken out.
        step, labelled = text.count("\n", 0, found.start) + 1, int(solution["model_output_solution_first_error_step"])
        counts["marked"] += 1
        counts["at_the_labelled_step" if step == labelled else "later" if step > labelled else "earlier"] += 1
    return dict(counts)


def main() -> int:
    """Count and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chains", type=Path, required=True)
    folder: Path = parser.parse_args().chains
    if not folder.is_dir():
        print(f"not measured: there is no folder {folder}", file=sys.stderr)
        return 3
    abel = [json.loads(line)["response"] for line in (folder / "abel.jsonl").read_text(encoding="utf-8").splitlines()]
    adapters = [record["output"] for record in json.loads((folder / "adapters.json").read_text(encoding="utf-8"))]
    labelled = [solution for path in sorted(folder.glob("mr_*.json"))
                for solution in json.loads(path.read_text(encoding="utf-8"))]
    # A solution may be in several files, graded by several models; people labelled it once.
    solutions = list({json.dumps(one["model_output_steps"]): one for one in labelled}.values())
    values = {"abel": checked(abel), "llm_adapters": checked(adapters),
              "first_wrong_equation": against_labels(solutions)}
    write_result(words="--chains FOLDER", values=values)
    print(json.dumps(values, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
