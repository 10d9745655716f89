"""Writes docs/reference/coming-from.md from `config/aliases.json`: ``python -m tools.alias_reference [--check]``."""

import sys
from pathlib import Path

from tools.generated import deliver
from workings.config.aliases import table

PAGE = Path("docs/reference/coming-from.md")

HEAD = """# If you come from another trainer

Top-level keys of TRL, axolotl, LLaMA-Factory and torchtune are accepted in a recipe and renamed; the run's log and
`config/overrides.json` in its record say which. A key without a counterpart is refused with what to do instead. Both
names at once are refused unless they say the same.

## Commands

| there | here |
|---|---|
| `trl sft --config FILE`, `axolotl train FILE`, `llamafactory-cli train FILE`, `tune run RECIPE --config FILE` | `workings train FILE --out DIR` |
| `--resume_from_checkpoint`, `resume_from_checkpoint: true` | `workings train FILE --out DIR --resume` |
| `axolotl preprocess FILE --debug` | `workings data preview FILE` |
| `tune ls`, `tune cp` | `workings recipes list`, `workings recipes copy` |
| `lm_eval --tasks …` | `workings eval RUN --items ITEMS.jsonl --out DIR` |
| comparing two scores by hand | `workings compare A B` |
| Tunix `PeftTrainer(...)` in a notebook | `workings train FILE --out DIR`, or `workings.train(FILE, DIR)` in Python |

## A few lines of Python

TRL:

<!-- not run: downloads a model -->
```python
from datasets import load_dataset
from trl import SFTTrainer

rows = load_dataset("json", data_files="rows.jsonl", split="train")
trainer = SFTTrainer(model="Qwen/Qwen3-0.6B", train_dataset=rows)
trainer.train()
```

The same here, with all weights and three passes over the rows, which are TRL's defaults:

<!-- not run: downloads a model; tests/runs/test_api.py runs these lines with a tiny one -->
```python
import json
from pathlib import Path
import workings

rows = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]  # or TRL's `rows` as they are
run = workings.train(model="Qwen/Qwen3-0.6B", data=rows, method="full", epochs=3)
print(run.ask("What is 38+14?"))
```

| line there | line here | what it does |
|---|---|---|
| `from trl import SFTTrainer` | `import workings` | imports the library; here neither PyTorch nor JAX is loaded with it |
| `rows = load_dataset(…)` | `rows = […]` | reads rows with `messages`, or `prompt` and `completion`. Rows may be a list, a pandas frame or a `datasets.Dataset`; a file is one of traces, which `workings data import` makes of it |
| `SFTTrainer(model=…)` | `workings.train(model=…)` | loads weights and tokenizer. Here it is planned first whether a step fits into memory; `method` is `lora` where it is not given, and `steps` or `epochs` must be |
| `trainer.train()` | `workings.train(…)` | trains on the last completion of each row; TRL on every text of `messages` unless `assistant_only_loss` is set. Here the run is sealed in `runs/` with weights, log and recipe, and `run` draws itself in a notebook |
| `trainer.model.generate(…)` | `run.ask(…)` | asks the trained model |

## Keys
"""


def render() -> str:
    """The whole page."""
    parts = [HEAD]
    names = list(dict.fromkeys(name for row in table().values() for name in row["from"]))
    for name in names:
        parts += [f"### {name}", "", "| key there | here |", "|---|---|"]
        parts += [f"| `{alias}` | {_here(row)} |" for alias, row in table().items() if name in row["from"]]
        parts.append("")
    return "\n".join(parts)


def _here(row: dict[str, object]) -> str:
    if "instead" in row:
        return f"*no counterpart*: {row['instead']}"
    values = row.get("values", {})
    assert isinstance(values, dict)
    sets = row.get("sets", {})
    assert isinstance(sets, dict)
    # An empty value is only implied: another key may still say more.
    implied = f"`{sets[row['key']]}`, unless another key says more" if row["key"] in sets else "the default"
    translated = ", ".join(f"`{before}` is `{after}`" if after else f"`{before}` is {implied}"
                           for before, after in values.items())
    return f"`{row['key']}`" + (f" ({translated})" if translated else "")


if __name__ == "__main__":
    sys.exit(deliver(PAGE, render(), check="--check" in sys.argv[1:]))
