"""All answers of a conversation are learned with TRL's training template of Qwen 3, which drops earlier thoughts."""
from pathlib import Path

import trl
from _tiny import say, sft, tokenizer

source = Path(trl.__file__).parent.joinpath("chat_templates/qwen3_training.jinja").read_text(encoding="utf-8")
answers = ["<think>one and one</think>FIRST", "<think>two and two</think>LAST"]
turns = [{"role": role, "content": text} for pair in zip(("1+1?", "2+2?"), answers)
         for role, text in zip(("user", "assistant"), pair)]
try:
    trainer = sft([{"messages": turns}], tokens=tokenizer(source), assistant_only_loss=True, max_length=4096)
    batch = trainer.data_collator([trainer.train_dataset[0]])
    text = trainer.processing_class.decode(batch["input_ids"][0][batch["labels"][0] != -100])
    both = "FIRST<|im_end|>" in text and "LAST<|im_end|>" in text and "2+2?" not in text
    say("right" if both else "wrong", f"learned is {text!r}")
except (ValueError, RuntimeError) as error:
    say("refused", " ".join(str(error).split())[:150])
