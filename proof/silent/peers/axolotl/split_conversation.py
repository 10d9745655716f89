"""A conversation of two turns that all end with the end of text, packed with another row: its documents."""
from _tiny import config, folder, load_datasets, say
from axolotl.train import setup_model_and_trainer

turns = [{"role": role, "content": text} for text in ("one", "two") for role in ("user", "assistant")]
made = config([{"messages": turns}, {"messages": turns[:2]}], folder(), sample_packing=True, attn_implementation="sdpa")
trainer = setup_model_and_trainer(made, load_datasets(cfg=made))[0]
[batch] = trainer.get_train_dataloader()
real = batch["input_ids"][0] != trainer.processing_class.pad_token_id
starts = int((batch["position_ids"][0][real] == 0).sum())
ends = int((batch["input_ids"] == trainer.processing_class.eos_token_id).sum())
say("right" if starts == 2 else "wrong", f"{starts} documents for 2 conversations with {ends} ends of text")
