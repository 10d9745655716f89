"""`reasoning_content` of the answer that is learned, with each of TRL's training templates that read it."""
from pathlib import Path

import trl
from _tiny import say, sft, tokenizer

row = {"prompt": [{"role": "user", "content": "1+1?"}],
       "completion": [{"role": "assistant", "content": "TWO", "reasoning_content": "STEP"}]}
found = {}
for path in sorted(Path(trl.__file__).parent.glob("chat_templates/*_training.jinja")):
    source = path.read_text(encoding="utf-8")
    if ".reasoning_content" in source:
        trainer = sft([row], tokens=tokenizer(source), max_length=4096)
        batch = trainer.data_collator([trainer.train_dataset[0]])
        text = trainer.processing_class.decode(batch["input_ids"][0][batch["labels"][0] != -100])
        found[path.stem] = text.count("STEP"), text.count("TWO")
wrong = [name for name, counts in found.items() if counts != (1, 1)]
say("wrong" if wrong else "right", f"of {len(found)} templates leave it out or repeat it: {', '.join(wrong) or 'none'}")
