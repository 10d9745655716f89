"""A conversation whose turns all end with the end of text, packed with another row: positions of its tokens."""
from _tiny import say, sft

turns = [{"role": role, "content": text} for text in ("one", "two") for role in ("user", "assistant")]
trainer = sft([{"messages": turns}, {"messages": turns[:2]}], packing=True, max_length=256)
batch = trainer.data_collator([trainer.train_dataset[0]])
starts = batch["position_ids"][0].tolist().count(0)
ends = int((batch["input_ids"] == trainer.processing_class.eos_token_id).sum())
say("right" if starts == 2 else "wrong", f"{starts} documents for 2 conversations with {ends} ends of text")
