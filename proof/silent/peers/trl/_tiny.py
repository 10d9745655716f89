"""A tiny random model, a tokenizer of bytes with ChatML turns, and trainers without anything that is saved or sent."""

import os
import sys
import tempfile

os.environ |= {"TRL_EXPERIMENTAL_SILENCE": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error",
               "TOKENIZERS_PARALLELISM": "false", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
USUAL = {"report_to": "none", "use_cpu": True, "bf16": False, "save_strategy": "no", "logging_steps": 1, "max_steps": 1,
         "learning_rate": 1e-3, "lr_scheduler_type": "constant", "disable_tqdm": True, "gradient_checkpointing": False}


def tokenizer(template=CHATML, **settings):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    base = Tokenizer(models.BPE({letter: number for number, letter in enumerate(alphabet)}, []))
    base.pre_tokenizer, base.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    marks = {"bos_token": "<s>", "eos_token": "<|im_end|>", "pad_token": "<pad>",
             "additional_special_tokens": ["<|im_start|>"]} | settings
    fast = PreTrainedTokenizerFast(tokenizer_object=base, **marks)
    fast.chat_template = template
    return fast


def model(**changes):
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**({
        "vocab_size": 262, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 512, "pad_token_id": 258, "eos_token_id": 257,
        "bos_token_id": 256} | changes)))


def sft(rows, trained=None, tokens=None, peft=None, **settings):
    from trl import SFTConfig, SFTTrainer

    # For packing and for the steps of a run TRL sorts nothing: rows come in their order.
    args = SFTConfig(**({"output_dir": tempfile.mkdtemp(), "max_length": 256} | USUAL | settings))
    return SFTTrainer(trained or model(), args, train_dataset=Dataset.from_list(rows), peft_config=peft,
                      processing_class=tokens or tokenizer())


def straight_and_resumed():
    """Trainers of the same six steps: in one piece, and stopped after three and resumed."""
    from transformers import TrainerCallback

    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **more):
            control.should_training_stop = control.should_save = state.global_step == 3

    rows = [{"prompt": "ab", "completion": chr(97 + number) * (number + 1)} for number in range(12)]
    asked = {"max_steps": 6, "per_device_train_batch_size": 2, "lr_scheduler_type": "cosine", "warmup_steps": 2}
    straight = sft(rows, **asked)
    straight.train()
    stopped = sft(rows, **asked, save_strategy="steps", save_steps=3)
    stopped.add_callback(Stop())
    stopped.train()
    again = sft(rows, **asked)
    again.train(resume_from_checkpoint=f"{stopped.args.output_dir}/checkpoint-3")
    return straight, again


def logged(trainer, name):
    return [line[name] for line in trainer.state.log_history if name in line]


def say(verdict, evidence):
    sys.stdout.write(f"\n{verdict}: {evidence}\n")
