"""Padding is the end of text: of two rows of other lengths the stop token is learned and padding is not."""
from _tiny import say, sft, tokenizer

tokens = tokenizer(pad_token="<|im_end|>")
trainer = sft([{"prompt": "ab", "completion": "c"}, {"prompt": "ab", "completion": "c" * 9}], tokens=tokens)
labels = trainer.data_collator([trainer.train_dataset[0], trainer.train_dataset[1]])["labels"]
learned = [[int(x) for x in row if x != -100] for row in labels]
ends = [row.count(tokens.eos_token_id) for row in learned]
say("right" if ends == [1, 1] else "wrong", f"stop tokens learned: {ends} of {[len(row) for row in learned]} tokens")
