"""Unsloth's templates and masks on a tokenizer of bytes; its training needs a device that this machine lacks."""

import os
import sys

os.environ |= {"UNSLOTH_ALLOW_CPU": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error",
               "TOKENIZERS_PARALLELISM": "false", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1", "UNSLOTH_DISABLE_STATISTICS": "1"}

import unsloth  # noqa: F401 - before transformers, as it asks
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from unsloth.chat_templates import CHAT_TEMPLATES, get_chat_template, train_on_responses_only

CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
MARKS = {"instruction_part": "<|im_start|>user\n", "response_part": "<|im_start|>assistant\n"}
TALK = [{"role": "system", "content": "PIRATE"}, {"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "two"},
        {"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "four"}]


def tokenizer(template=CHATML, **marks):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    base = Tokenizer(models.BPE({letter: number for number, letter in enumerate(alphabet)}, []))
    base.pre_tokenizer, base.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=base, **({
        "bos_token": "<s>", "eos_token": "<|im_end|>", "pad_token": "<pad>",
        "additional_special_tokens": ["<|im_start|>"]} | marks))
    fast.chat_template = template
    return fast


def learned(tokens, turns, **marks):
    """What is learned of a conversation, by `train_on_responses_only`."""
    ids = tokens.apply_chat_template(turns, tokenize=True, return_dict=True)["input_ids"]
    mask = train_on_responses_only(None, tokenizer=tokens, return_function=True, **marks)
    labels = mask({"input_ids": [ids]})["labels"][0]
    return tokens.decode([int(label) for label in labels if label != -100])


def trainer(turns, **settings):
    """TRL's trainer, as Unsloth's guide gives it to `train_on_responses_only`; it is not run."""
    import tempfile

    from datasets import Dataset
    from transformers import LlamaConfig, LlamaForCausalLM
    from trl import SFTConfig, SFTTrainer

    model = LlamaForCausalLM(LlamaConfig(vocab_size=300, hidden_size=32, intermediate_size=48, num_hidden_layers=1,
                                         num_attention_heads=4, num_key_value_heads=2))
    text = tokenizer().apply_chat_template(turns, tokenize=False)
    return SFTTrainer(model, SFTConfig(tempfile.mkdtemp(), report_to="none", use_cpu=True, bf16=False, **settings),
                      train_dataset=Dataset.from_list([{"text": text}] * 2), processing_class=tokenizer())


def by_template():
    """Each of Unsloth's templates for text, on a tokenizer whose stop token it maps as a user does."""
    for name in CHAT_TEMPLATES:
        if "vl" not in name and "vision" not in name:
            yield name, get_chat_template(tokenizer(), name, map_eos_token=False)


def say(verdict, evidence):
    sys.stdout.write(f"\n{verdict}: {evidence}\n")
