"""The first learned token of a conversation whose completion alone is learned."""
from _tiny import say, sft, tokenizer

trainer = sft([{"prompt": [{"role": "user", "content": "What is 1+1?"}],
                "completion": [{"role": "assistant", "content": "2"}]}])
batch = trainer.data_collator([trainer.train_dataset[0]])
text = tokenizer().decode(batch["input_ids"][0][batch["labels"][0] != -100])
say("right" if text.startswith("2") else "wrong", f"learned is {text!r}")
