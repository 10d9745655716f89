"""A tiny random model and a tokenizer of bytes in a folder, and Soup's trainer on a file of rows."""

import json
import os
import sys
import tempfile
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "TOKENIZERS_PARALLELISM": "false",
               "HF_DATASETS_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}

from _model import CHATML, model_folder  # noqa: F401 - cases import it from here
from soup_cli.config.loader import load_config_from_string
from soup_cli.data.loader import load_dataset
from soup_cli.trainer.dispatch import build_trainer

MARKED = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}{% generation %}"
          "{{ m.content + '<|im_end|>' }}{% endgeneration %}{% else %}{{ m.content + '<|im_end|>' }}{% endif %}"
          "{{ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
"""With the marks that Soup asks for where nothing but the answer is to be learned."""
SUM = [{"messages": [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]}] * 2


LORA = {"r": 4, "alpha": 8, "target_modules": ["q_proj", "down_proj"]}


def folder(template=MARKED, post=None, shape=None, **marks):
    """A folder with a model and its tokenizer."""
    return model_folder(template, post, shape, **marks)


def turns(*texts):
    """A row of a user's and an assistant's texts in turn."""
    return {"messages": [{"role": ("user", "assistant")[number % 2], "content": text} for number, text in enumerate(texts)]}


def recipe(place, data="x.jsonl", training=None, task="sft", output=None, **more):
    """A configuration as text; full fine-tuning on the CPU."""
    settings = {"epochs": 1, "batch_size": 1, "lr": 1e-3, "quantization": "none", "logging_steps": 1,
                "gradient_accumulation_steps": 1, "warmup_ratio": 0.0, "lora": {"r": 0}} | (training or {})
    return json.dumps({"base": place, "task": task, "output": output or tempfile.mkdtemp(), "training": settings,
                       "data": {"train": data, "val_split": 0.0, "max_length": 256} | more})


def trainer(rows, place=None, training=None, held_out=None, **more):
    """Soup's own trainer, made ready with these rows; its `.trainer` is the inner one, with Trainer's state."""
    path = Path(tempfile.mkdtemp(), "rows.jsonl")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = load_config_from_string(recipe(place or folder(), str(path), training, **more))
    made = build_trainer(config, device="cpu")
    data = load_dataset(config.data)
    made.setup(data | {"val": data["train"]} if held_out else data)
    return made


def texts(made):
    """What is read and what is learned of the first row, as the model gets it."""
    batch = made.trainer.data_collator([made.trainer.train_dataset[0]])
    ids, learned = batch["input_ids"][0], batch["labels"][0] != -100
    return made.tokenizer.decode(ids[~learned]), made.tokenizer.decode(ids[learned])


def logged(made, name):
    return [line[name] for line in made.trainer.state.log_history if name in line]


def weights(place):
    from safetensors.torch import load_file

    return load_file(next(Path(place).glob("*.safetensors")))


def say(verdict, evidence):
    sys.stdout.write(f"\n{verdict}: {evidence}\n")
