"""A tiny random model and a tokenizer of bytes in a folder, and Soup's trainer on a file of rows."""

import json
import os
import sys
import tempfile
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "TOKENIZERS_PARALLELISM": "false",
               "HF_DATASETS_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}

from _model import model_folder
from soup_cli.config.loader import load_config_from_string
from soup_cli.data.loader import load_dataset
from soup_cli.trainer.sft import SFTTrainerWrapper

CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
MARKED = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}{% generation %}"
          "{{ m.content + '<|im_end|>' }}{% endgeneration %}{% else %}{{ m.content + '<|im_end|>' }}{% endif %}"
          "{{ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
"""With the marks that Soup asks for where nothing but the answer is to be learned."""
SUM = [{"messages": [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]}] * 2


def folder(template=MARKED, post=None, **marks):
    """A folder with a model and its tokenizer."""
    return model_folder(template, post, **marks)


def recipe(place, data="x.jsonl", training=None, **more):
    """A configuration as text; full fine-tuning on the CPU."""
    settings = {"epochs": 1, "batch_size": 1, "lr": 1e-3, "quantization": "none", "logging_steps": 1,
                "gradient_accumulation_steps": 1, "warmup_ratio": 0.0, "lora": {"r": 0}} | (training or {})
    return json.dumps({"base": place, "task": "sft", "output": tempfile.mkdtemp(), "training": settings,
                       "data": {"train": data, "val_split": 0.0, "max_length": 256} | more})


def trainer(rows, place=None, training=None, **more):
    """Soup's own trainer, made ready with these rows; its `.trainer` is the inner one."""
    path = Path(tempfile.mkdtemp(), "rows.jsonl")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = load_config_from_string(recipe(place or folder(), str(path), training, **more))
    made = SFTTrainerWrapper(config, device="cpu")
    made.setup(load_dataset(config.data))
    return made


def texts(made):
    """What is read and what is learned of the first row, as the model gets it."""
    batch = made.trainer.data_collator([made.trainer.train_dataset[0]])
    ids, learned = batch["input_ids"][0], batch["labels"][0] != -100
    return made.tokenizer.decode(ids[~learned]), made.tokenizer.decode(ids[learned])


def logged(made, name):
    return [line[name] for line in made.trainer.state.log_history if name in line]


def say(verdict, evidence):
    sys.stdout.write(f"\n{verdict}: {evidence}\n")
