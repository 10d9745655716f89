"""The reasoning in the field `reasoning_content` and in the content, with TRL's training template of Qwen 3."""
from pathlib import Path

import trl
from _tiny import say, sft, tokenizer

source = Path(trl.__file__).parent.joinpath("chat_templates/qwen3_training.jinja").read_text(encoding="utf-8")
trainer = sft([{"prompt": [{"role": "user", "content": "7+5?"}], "completion": [{
    "role": "assistant", "content": "<think>\nSTEP\n</think>\n\n12", "reasoning_content": "STEP"}]}],
    tokens=tokenizer(source), max_length=4096)
batch = trainer.data_collator([trainer.train_dataset[0]])
text = trainer.processing_class.decode(batch["input_ids"][0][batch["labels"][0] != -100])
say("right" if text.count("STEP") == 1 else "wrong", f"learned is {text!r}")
