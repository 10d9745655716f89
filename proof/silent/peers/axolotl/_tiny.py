"""A tiny random model and a tokenizer of bytes in a folder, and axolotl's data pipeline and training on files."""

import io
import json
import logging
import os
import sys
import tempfile
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "TOKENIZERS_PARALLELISM": "false",
               "HF_DATASETS_DISABLE_PROGRESS_BARS": "1", "AXOLOTL_DO_NOT_TRACK": "1", "HF_DATASETS_CACHE":
               tempfile.mkdtemp()}

from _model import CHATML, model_folder
from axolotl.cli.config import load_cfg
from axolotl.common.datasets import load_datasets
from axolotl.train import train
from transformers import AutoTokenizer

SUM = [{"messages": [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "two"}]}] * 2
LORA = {"adapter": "lora", "lora_r": 4, "lora_alpha": 8, "lora_target_modules": ["q_proj", "down_proj"],
        "lora_qkv_kernel": False, "lora_o_kernel": False, "lora_mlp_kernel": False}
said = io.StringIO()
"""What axolotl logged since the last settings."""


def folder(template=CHATML, post=None, **marks):
    """A folder with a model and its tokenizer."""
    return model_folder(template, post, **marks)


def config(rows, place=None, dataset=None, **settings):
    """axolotl's own reading of a file of settings."""
    data, file = Path(tempfile.mkdtemp(), "rows.jsonl"), Path(tempfile.mkdtemp(), "recipe.yml")
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    entry = {"path": str(data), "ds_type": "json", "type": "chat_template", "field_messages": "messages"} | (dataset or {})
    file.write_text(json.dumps({
        "base_model": place or folder(), "datasets": [entry], "sequence_len": 256, "micro_batch_size": 1, "max_steps": 1,
        "gradient_accumulation_steps": 1, "learning_rate": 1e-3, "optimizer": "adamw_torch", "lr_scheduler": "constant",
        "output_dir": tempfile.mkdtemp(), "dataset_prepared_path": tempfile.mkdtemp(), "logging_steps": 1,
        "chat_template": "tokenizer_default", "bf16": False, "fp16": False, "tf32": False, "num_epochs": 1,
        "dataset_num_proc": 1, "save_strategy": "no", "attn_implementation": "eager"} | settings))
    said.seek(0)
    said.truncate()
    made = load_cfg(str(file))
    logging.getLogger("axolotl").addHandler(logging.StreamHandler(said))
    return made


def encoded(*asked, **settings):
    """Tokenizer and encoded rows."""
    made = config(*asked, **settings)
    return AutoTokenizer.from_pretrained(made.base_model), load_datasets(cfg=made).train_dataset


def texts(tokens, row):
    """What is read and what is learned of a row."""
    return (tokens.decode([x for x, y in zip(row["input_ids"], row["labels"]) if (y == -100) is read])
            for read in (True, False))


def run(*asked, **settings):
    """The trainer of a run that is done."""
    made = config(*asked, **settings)
    _, _, trainer = train(cfg=made, dataset_meta=load_datasets(cfg=made))
    return trainer


def trained(*asked, **settings):
    """Lines of the log of a run."""
    return run(*asked, **settings).state.log_history


def logged(one, name):
    return [round(line[name], 9) for line in one.state.log_history if name in line]


def straight_and_resumed():
    """Trainers of the same six steps: in one piece, and resumed from the third on the same prepared data set."""
    rows = [{"messages": [{"role": "user", "content": "ab"}, {"role": "assistant", "content": chr(97 + n) * (n + 1)}]}
            for n in range(12)]
    data = Path(tempfile.mkdtemp(), "rows.jsonl")
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = {"max_steps": 6, "micro_batch_size": 2, "lr_scheduler": "cosine", "warmup_steps": 2,
             "dataset_prepared_path": tempfile.mkdtemp()}
    place, dataset = folder(), {"path": str(data)}
    straight = run(rows, place, dataset, **asked, save_strategy="steps", save_steps=3)
    return straight, run(rows, place, dataset, **asked, resume_from_checkpoint=f"{straight.args.output_dir}/checkpoint-3")


def weights(place):
    from safetensors.torch import load_file

    return load_file(next(Path(place).glob("*.safetensors")))


def say(verdict, evidence):
    sys.stdout.write(f"\n{verdict}: {evidence}\n")
