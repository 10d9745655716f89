"""Padding is the end of text: of two rows of other lengths the stop token is learned and padding is not."""
from _tiny import config, folder, load_datasets, say
from axolotl.train import setup_model_and_trainer

rows = [{"messages": [{"role": "user", "content": "ab"}, {"role": "assistant", "content": text}]} for text in ("c", "c" * 20)]
made = config(rows, folder(pad_token="<|im_end|>"), micro_batch_size=2)
trainer = setup_model_and_trainer(made, load_datasets(cfg=made))[0]
labels = next(iter(trainer.get_train_dataloader()))["labels"]
ends = [int((row == trainer.processing_class.eos_token_id).sum()) for row in labels]
say("right" if ends == [1, 1] else "wrong", f"stop tokens learned: {ends} of {[int((row != -100).sum()) for row in labels]} tokens")
