"""Padding is the end of text: of two rows of other lengths the stop token is learned and padding is not."""
from _tiny import folder, say, trainer

rows = [{"messages": [{"role": "user", "content": "ab"}, {"role": "assistant", "content": text}]} for text in ("c", "c" * 9)]
made = trainer(rows, folder(pad_token="<|im_end|>"))
labels = made.trainer.data_collator([made.trainer.train_dataset[number] for number in (0, 1)])["labels"]
ends = [int((row == made.tokenizer.eos_token_id).sum()) for row in labels]
say("right" if ends == [1, 1] else "wrong", f"stop tokens learned: {ends} of {[int((row != -100).sum()) for row in labels]} tokens")
