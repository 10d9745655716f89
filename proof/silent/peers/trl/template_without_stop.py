"""A template that writes no token after the answer."""
from _tiny import CHATML, say, sft, tokenizer

tokens = tokenizer(CHATML.replace("+ '<|im_end|>\n' }}{% endfor %}", "}}{% endfor %}"))
try:
    trainer = sft([{"prompt": [{"role": "user", "content": "1+1?"}],
                    "completion": [{"role": "assistant", "content": "2"}]}], tokens=tokens)
    batch = trainer.data_collator([trainer.train_dataset[0]])
    text = tokens.decode(batch["input_ids"][0][batch["labels"][0] != -100])
    say("right" if text.endswith("<|im_end|>") else "wrong", f"learned is {text!r}")
except (ValueError, RuntimeError) as error:
    say("refused", " ".join(str(error).split())[:150])
