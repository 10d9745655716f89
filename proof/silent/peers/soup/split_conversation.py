"""A conversation whose turns all end with the end of text, packed with another row: positions of its tokens."""
from _tiny import say, trainer, turns

made = trainer([turns("one", "1", "two", "2"), turns("one", "1")], None, {"packing": True})
batch = made.trainer.data_collator([made.trainer.train_dataset[0]])
ends = int((batch["input_ids"] == made.tokenizer.eos_token_id).sum())
if "position_ids" in batch:
    starts = batch["position_ids"][0].tolist().count(0)
    say("right" if starts == 2 else "wrong", f"{starts} documents for 2 conversations with {ends} ends of text")
else:
    say("right", f"no positions: documents are not told apart; {ends} ends of text, {sorted(batch)}")
