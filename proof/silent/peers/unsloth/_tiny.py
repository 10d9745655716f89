"""Unsloth's templates, masks and CPU backend on a tiny random model; what needs its GPU kernels is not tried."""

import os
import sys
import tempfile
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "TOKENIZERS_PARALLELISM": "false",
               "HF_DATASETS_DISABLE_PROGRESS_BARS": "1", "UNSLOTH_DISABLE_STATISTICS": "1"}

import unsloth  # noqa: F401 - before transformers, as it asks
from _model import CHATML, model_folder
from datasets import Dataset
from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer
from unsloth import FastLanguageModel
from unsloth.chat_templates import CHAT_TEMPLATES, get_chat_template, train_on_responses_only

MARKS = {"instruction_part": "<|im_start|>user\n", "response_part": "<|im_start|>assistant\n"}
TALK = [{"role": "system", "content": "PIRATE"}, {"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "two"},
        {"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "four"}]
LORA = {"r": 4, "target_modules": ["q_proj", "down_proj"]}
USUAL = {"report_to": "none", "save_strategy": "no", "logging_steps": 1, "max_steps": 1, "learning_rate": 1e-3, "max_length": 256,
         "lr_scheduler_type": "constant", "disable_tqdm": True, "warmup_steps": 0, "per_device_train_batch_size": 1}


def tokenizer(template=CHATML, **marks):
    return AutoTokenizer.from_pretrained(model_folder(template, **marks))


def turns(*texts):
    """A user's and an assistant's texts in turn."""
    return [{"role": ("user", "assistant")[number % 2], "content": text} for number, text in enumerate(texts)]


def learned(tokens, talk, **marks):
    """What is learned of a conversation, by `train_on_responses_only`."""
    ids = tokens.apply_chat_template(talk, tokenize=True, return_dict=True)["input_ids"]
    mask = train_on_responses_only(None, tokenizer=tokens, return_function=True, **marks)
    labels = mask({"input_ids": [ids]})["labels"][0]
    return tokens.decode([int(label) for label in labels if label != -100])


def loaded(place=None, lora=LORA, **asked):
    """A model of Unsloth's loader, with adapters where ``lora`` is not empty, and its tokenizer."""
    model, tokens = FastLanguageModel.from_pretrained(place or model_folder(CHATML), **({
        "max_seq_length": 256, "load_in_4bit": False, "dtype": "float32", "full_finetuning": not lora} | asked))
    return FastLanguageModel.get_peft_model(model, **lora) if lora else model, tokens


def trainer(rows, place=None, lora=LORA, asked=None, only=MARKS, **settings):
    """The trainer of Unsloth's guide, on conversations, with `train_on_responses_only`; it is not run."""
    model, tokens = loaded(place, lora, **(asked or {}))
    data = Dataset.from_list([{"text": tokens.apply_chat_template(talk, tokenize=False)} for talk in rows])
    made = SFTTrainer(model=model, tokenizer=tokens, train_dataset=data, eval_dataset=data,
                      args=SFTConfig(**({"output_dir": tempfile.mkdtemp()} | USUAL | settings)))
    return train_on_responses_only(made, **only) if only else made


def logged(one, name):
    return [line[name] for line in one.state.log_history if name in line]


def straight_and_resumed():
    """Trainers of the same six steps: in one piece, and resumed from the third in another folder."""
    rows, place = [turns("ab", chr(97 + number) * (number + 1)) for number in range(12)], model_folder(CHATML)
    asked = {"max_steps": 6, "per_device_train_batch_size": 2, "lr_scheduler_type": "cosine", "warmup_steps": 2}
    straight = trainer(rows, place, **asked | {"save_strategy": "steps", "save_steps": 3})
    straight.train()
    again = trainer(rows, place, **asked)
    again.train(resume_from_checkpoint=f"{straight.args.output_dir}/checkpoint-3")
    return straight, again


def weights(place):
    from safetensors.torch import load_file

    return load_file(next(Path(place).glob("*.safetensors")))


def by_template():
    """Each of Unsloth's templates for text, on a tokenizer whose stop token it maps as a user does."""
    for name in CHAT_TEMPLATES:
        if "vl" not in name and "vision" not in name:
            yield name, get_chat_template(tokenizer(), name, map_eos_token=False)


def say(verdict, evidence):
    sys.stdout.write(f"\n{verdict}: {evidence}\n")
