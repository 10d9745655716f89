"""A system turn with each of TRL's training templates for text."""
from pathlib import Path

import trl
from _tiny import say, sft, tokenizer

row = {"messages": [{"role": "system", "content": "PIRATE"}, {"role": "user", "content": "Hi"},
                    {"role": "assistant", "content": "Ahoy"}]}
tried, drops, refused = 0, [], []
for path in sorted(Path(trl.__file__).parent.glob("chat_templates/*_training.jinja")):
    if "image" in (source := path.read_text(encoding="utf-8")):
        continue
    try:
        trainer = sft([row], tokens=tokenizer(source), max_length=4096)
    except Exception:  # noqa: BLE001 - the template refuses such a turn
        refused.append(path.stem)
        continue
    tried += 1
    if "PIRATE" not in trainer.processing_class.decode(trainer.train_dataset[0]["input_ids"]):
        drops.append(path.stem.removesuffix("_training"))
say("wrong" if drops else "right", f"of {tried} templates leave it out: {', '.join(drops) or 'none'}; {len(refused)} refuse")
