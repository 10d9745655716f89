"""Writes docs/reference/coming-from.md from `config/aliases.json`: ``python -m tools.alias_reference [--check]``."""

import sys
from pathlib import Path

from tools.generated import deliver
from workings.config.aliases import table

PAGE = Path("docs/reference/coming-from.md")

HEAD = """# From TRL, Unsloth and axolotl in ten minutes

The same job in each: LoRA on a chat file, then GRPO. Files of TRL, axolotl, LLaMA-Factory and torchtune are recipes here
as far as [their keys](#keys) go: each is renamed, and the run's log and record say so. A key without a counterpart is
refused with what to do instead. Both names at once are refused unless they say the same.

TRL:

<!-- not run: downloads a model -->
```python
from datasets import load_dataset
from peft import LoraConfig
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

rows = load_dataset("json", data_files="chats.jsonl", split="train")
lora = LoraConfig(r=16, lora_alpha=32)
batch = dict(per_device_train_batch_size=8, gradient_accumulation_steps=2)
SFTTrainer("Qwen/Qwen3-0.6B", SFTConfig("sft", max_length=512, num_train_epochs=3, learning_rate=2e-4, **batch),
           train_dataset=rows, peft_config=lora).train()

def right(completions, answer, **columns):
    return [float(gold in said[-1]["content"]) for gold, said in zip(answer, completions)]

# Before: merge the adapters into `sft-model`, and make a file of `prompt` and `answer`.
GRPOTrainer("sft-model", right, GRPOConfig("grpo", num_generations=8, max_completion_length=64, max_steps=100, **batch),
            train_dataset=load_dataset("json", data_files="questions.jsonl", split="train"), peft_config=lora).train()
```

Unsloth has the same two trainers, without `peft_config` and around its own model:

<!-- not run: needs a card -->
```python
from unsloth import FastLanguageModel  # before trl

model, tokenizer = FastLanguageModel.from_pretrained("Qwen/Qwen3-0.6B", max_seq_length=512, load_in_4bit=False)
model = FastLanguageModel.get_peft_model(model, r=16, lora_alpha=32)
```

axolotl, with `axolotl train FILE`. For GRPO add `rl: grpo`, `trl: {num_generations: 8, max_completion_length: 64,
reward_funcs: [rewards.right]}` and a module `rewards`:

```yaml
base_model: Qwen/Qwen3-0.6B
datasets: [{path: chats.jsonl, ds_type: json, type: chat_template}]
adapter: lora
lora_r: 16
lora_alpha: 32
lora_target_linear: true
sequence_len: 512
micro_batch_size: 8
gradient_accumulation_steps: 2
num_epochs: 3
learning_rate: 2e-4
optimizer: adamw_torch
```

Here, with TRL's keys (axolotl's work too, except `datasets` and `optimizer`). A test runs these lines. `--smoke` trains a
tiny model for two steps instead of the real one: leave it out.

```bash
for n in 1 2 3 4 5 6 7 8; do
  echo '{"messages": [{"role": "user", "content": "'$n'+4?"}, {"role": "assistant", "content": "#### '$((n + 4))'"}]}'
done > chats.jsonl
cat > moved.yaml <<'END'
name: moved
engine: torch
model_name_or_path: Qwen/Qwen3-0.6B
dataset_name: chats.jsonl
data: {template: tokenizer, reasoning: answer_only}
max_length: 512
use_peft: true
lora_r: 16
lora_alpha: 32
per_device_train_batch_size: 8
gradient_accumulation_steps: 2
num_train_epochs: 3
learning_rate: 2e-4
optim: adamw_torch
END
workings train moved.yaml --out runs/moved-sft --smoke
workings verify runs/moved-sft
workings export runs/moved-sft --out sft-model
cat > right.py <<'END'
def right(prompts, completions, expected_answer, **columns):
    return [(gold in text) + 0.1 * any(map(str.isdigit, text)) for gold, text in zip(expected_answer, completions)]
END
sed 's/num_train_epochs: 3/max_steps: 4/; s|Qwen/Qwen3-0.6B|sft-model|' moved.yaml > moved-grpo.yaml
cat >> moved-grpo.yaml <<'END'
algorithm: {name: grpo}
num_generations: 8
max_completion_length: 64
rewards: [{scorer: "right.py:right"}]
END
workings train moved-grpo.yaml --out runs/moved-grpo
workings push runs/moved-grpo OWNER/NAME --license apache-2.0    # --yes uploads
```

What differs: only answers are learned here; TRL learns all of `messages` unless `assistant_only_loss` is set. GRPO takes
the expected answers from the chats; the built-in [`scorer: answer`](../learning-from-rewards.md) compares them without a
function of yours. Memory is checked before the first step, and every run is sealed.

## In Python

<!-- not run: downloads a model; tests/runs/test_api.py runs these lines with a tiny one -->
```python
import json
from pathlib import Path
import workings

rows = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]  # or a `datasets.Dataset`
run = workings.train(model="Qwen/Qwen3-0.6B", data=rows, method="full", epochs=3)
print(run.ask("What is 38+14?"))
```

`method` is `lora` where it is not given; `steps` or `epochs` must be. `rewards=["answer"]` learns by GRPO.

## Commands

| there | here |
|---|---|
| `trl sft --config FILE`, `axolotl train FILE`, `llamafactory-cli train FILE`, `tune run RECIPE --config FILE` | `workings train FILE --out DIR` |
| `--resume_from_checkpoint`, `resume_from_checkpoint: true` | `workings train FILE --out DIR --resume` |
| `axolotl preprocess FILE --debug` | `workings data preview FILE` |
| `axolotl merge-lora`, `model.save_pretrained_merged(…)` | `workings export RUN --out DIR` |
| `trainer.push_to_hub()`, `model.push_to_hub_merged(…)` | `workings push RUN OWNER/NAME --yes` |
| `tune ls`, `tune cp` | `workings recipes list`, `workings recipes copy` |
| `lm_eval --tasks gsm8k` | `workings eval RUN --task gsm8k --out DIR` |
| comparing two scores by hand | `workings compare A B` |
| Tunix `PeftTrainer(...)` in a notebook | `workings train FILE --out DIR`, or `workings.train(FILE, DIR)` in Python |

## Keys

| key there | of | here |
|---|---|---|
"""


def render() -> str:
    """The whole page."""
    # Those that are asked for most come first.
    rows = sorted(table().items(), key=lambda entry: "TRL" not in entry[1]["from"])
    return HEAD + "".join(f"| `{alias}` | {', '.join(row['from'])} | {_here(row)} |\n" for alias, row in rows)


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
