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

from _model import model_folder
from axolotl.cli.config import load_cfg
from axolotl.common.datasets import load_datasets
from axolotl.train import train
from transformers import AutoTokenizer

CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
SUM = [{"messages": [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "two"}]}] * 2
said = io.StringIO()
"""What axolotl logged."""


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


def trained(*asked, **settings):
    """Lines of the log of a run."""
    made = config(*asked, **settings)
    _, _, trainer = train(cfg=made, dataset_meta=load_datasets(cfg=made))
    return trainer.state.log_history


def say(verdict, evidence):
    sys.stdout.write(f"\n{verdict}: {evidence}\n")
