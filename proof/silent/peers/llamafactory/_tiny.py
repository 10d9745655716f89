"""A tiny random model and a tokenizer of bytes in a folder, and LLaMA-Factory's data pipeline and training on files."""

import json
import os
import sys
import tempfile
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "TOKENIZERS_PARALLELISM": "false",
               "LLAMAFACTORY_VERBOSITY": "ERROR", "HF_DATASETS_CACHE": tempfile.mkdtemp(), "DISABLE_VERSION_CHECK": "1"}
# Has no build for PyTorch's CPU wheel; LLaMA-Factory uses it for sound alone.
sys.modules["torchaudio"] = module_from_spec(ModuleSpec("torchaudio", None))

from _model import CHATML, model_folder
from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
from llamafactory.hparams import get_train_args
from llamafactory.model import load_tokenizer
from llamafactory.train.tuner import run_exp

COLUMNS = {"prompt": "instruction", "query": "input", "response": "output"}


def folder(template=CHATML, post=None, seed=0, **marks):
    """Of a model and its tokenizer."""
    return model_folder(template, post, seed=seed, **({"unk_token": "<unk>"} | marks))


def arguments(rows, place=None, attributes=None, **settings):
    """Of a run on these rows: a file, its entry in dataset_info.json, and the settings of a recipe."""
    data = Path(tempfile.mkdtemp())
    (data / "rows.json").write_text(json.dumps(rows))
    (data / "dataset_info.json").write_text(json.dumps({"rows": {"file_name": "rows.json", "columns": COLUMNS}
                                                        | (attributes or {})}))
    return {"stage": "sft", "do_train": True, "model_name_or_path": place or folder(), "dataset": "rows", "template": "qwen",
            "dataset_dir": str(data), "output_dir": tempfile.mkdtemp(), "finetuning_type": "full", "max_steps": 1,
            "cutoff_len": 256, "per_device_train_batch_size": 1, "learning_rate": 1e-3, "logging_steps": 1,
            "lr_scheduler_type": "constant", "report_to": "none", "use_cpu": True, "bf16": False, "save_strategy": "no",
            "preprocessing_num_workers": 1, "disable_gradient_checkpointing": True, "disable_tqdm": True} | settings


def encoded(*asked, **settings):
    """Tokenizer and encoded rows, as LLaMA-Factory's trainer gets them."""
    model_args, data_args, training_args, _, _ = get_train_args(arguments(*asked, **settings))
    module = load_tokenizer(model_args)
    template = get_template_and_fix_tokenizer(module["tokenizer"], data_args)
    return module["tokenizer"], get_dataset(template, model_args, data_args, training_args, stage="sft", **module)["train_dataset"]


def texts(tokens, row):
    """What is read and what is learned of a row."""
    return (tokens.decode([x for x, y in zip(row["input_ids"], row["labels"]) if (y == -100) is read])
            for read in (True, False))


def by_template(messages, system="", tools="", kind=object):
    """What is read and what is learned, with each of LLaMA-Factory's templates for text."""
    from llamafactory.data.processor import SupervisedDatasetProcessor
    from llamafactory.data.template import TEMPLATES

    place = folder()
    for name, known in TEMPLATES.items():
        if isinstance(known, kind) and known.mm_plugin.__class__.__name__ == "BasePlugin":
            model_args, data_args, *_ = get_train_args(arguments([], place, template=name, cutoff_len=2048))
            tokens = load_tokenizer(model_args)["tokenizer"]
            template = get_template_and_fix_tokenizer(tokens, data_args)
            asked = [{"role": role, "content": text} for role, text in messages(template) if text]
            processor = SupervisedDatasetProcessor(template, tokens, None, data_args)
            made = processor.preprocess_dataset({"_prompt": [asked[:-1]], "_response": [asked[-1:]], "_system": [system],
                "_tools": [tools], "_images": [None], "_videos": [None], "_audios": [None]})
            yield name, *texts(tokens, {name: made[name][0] for name in ("input_ids", "labels")})


def trained(*asked, **settings):
    """Lines of the log of a run, and its folder."""
    made = arguments(*asked, **settings)
    run_exp(made)
    state = json.loads(Path(made["output_dir"], "trainer_state.json").read_text())
    return state["log_history"], made["output_dir"]


def say(verdict, evidence):
    sys.stdout.write(f"\n{verdict}: {evidence}\n")


def straight_and_resumed():
    """Logs and folders of the same six steps: in one piece, and resumed from the third in another folder."""
    rows, place = [{"instruction": "ab", "input": "", "output": chr(97 + n) * (n + 1)} for n in range(12)], folder()
    asked = {"max_steps": 6, "per_device_train_batch_size": 2, "lr_scheduler_type": "cosine", "warmup_steps": 2}
    straight = trained(rows, place, save_strategy="steps", save_steps=3, **asked)
    return straight, trained(rows, place, resume_from_checkpoint=f"{straight[1]}/checkpoint-3", **asked)


def logged(log, name):
    return [round(line[name], 9) for line in log if name in line and "train_runtime" not in line]


def weights(place):
    from safetensors.torch import load_file

    return load_file(next(Path(place).glob("*.safetensors")))
