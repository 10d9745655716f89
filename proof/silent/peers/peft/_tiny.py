"""A tiny random model with an adapter, and the loop of PEFT's quicktour: transformers' own `Trainer`."""

import os
import sys
import tempfile

os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "TOKENIZERS_PARALLELISM": "false"}

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

LORA = LoraConfig(r=4, target_modules=["q_proj", "down_proj"], task_type="CAUSAL_LM")
USUAL = {"report_to": "none", "use_cpu": True, "save_strategy": "no", "logging_steps": 1, "max_steps": 1,
         "learning_rate": 1e-3, "lr_scheduler_type": "constant", "disable_tqdm": True}


def model(**changes):
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**({
        "vocab_size": 262, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 512} | changes)))


def padded(rows):
    """Rows of a number of learned tokens after two that are read, padded on the right."""
    longest = max(row["learned"] for row in rows) + 2
    ids = torch.tensor([[5, 7, *(11 + i % 90 for i in range(row["learned"]))] + [0] * (longest - 2 - row["learned"])
                        for row in rows])
    learned = torch.tensor([[0, 0] + [1] * row["learned"] + [0] * (longest - 2 - row["learned"]) for row in rows])
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": ids.where(learned == 1, -100)}


def trainer(lengths, trained=None, **settings):
    args = TrainingArguments(**({"output_dir": tempfile.mkdtemp(), "remove_unused_columns": False} | USUAL | settings))
    rows = [{"learned": length} for length in lengths]
    return Trainer(trained or get_peft_model(model(), LORA), args, data_collator=padded, train_dataset=rows,
                   eval_dataset=rows)


def straight_and_resumed():
    """Trainers of the same six steps: in one piece, and stopped after three and resumed."""
    from transformers import TrainerCallback

    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **more):
            control.should_training_stop = control.should_save = state.global_step == 3

    asked = {"max_steps": 6, "per_device_train_batch_size": 2, "lr_scheduler_type": "cosine", "warmup_steps": 2}
    straight, stopped, again = (trainer(range(3, 15), **asked, **more) for more in (
        {}, {"save_strategy": "steps", "save_steps": 3}, {}))
    straight.train()
    stopped.add_callback(Stop())
    stopped.train()
    again.train(resume_from_checkpoint=f"{stopped.args.output_dir}/checkpoint-3")
    return straight, again


def logged(one, name):
    return [line[name] for line in one.state.log_history if name in line]


def say(verdict, evidence):
    sys.stdout.write(f"\n{verdict}: {evidence}\n")
