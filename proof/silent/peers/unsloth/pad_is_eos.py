"""Padding is the end of text: of two rows of other lengths the stop token is learned and padding is not."""
from _tiny import CHATML, model_folder, say, trainer, turns

one = trainer([turns("ab", "c"), turns("ab", "c" * 20)], model_folder(CHATML, pad_token="<|im_end|>"))
labels = one.data_collator([one.train_dataset[0], one.train_dataset[1]])["labels"]
ends = [int((row == one.processing_class.eos_token_id).sum()) for row in labels]
say("right" if ends == [1, 1] else "wrong", f"stop tokens learned: {ends} of {[int((row != -100).sum()) for row in labels]} tokens")
