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
