"""Two rows with `sample_packing`: what the border predicts, and how many tokens are learned."""
from _tiny import config, folder, load_datasets, say
from axolotl.train import setup_model_and_trainer

rows = [{"messages": [{"role": "user", "content": "ab"}, {"role": "assistant", "content": letter * count}]}
        for letter, count in (("c", 9), ("d", 12))]
made = config(rows, folder(), sample_packing=True, attn_implementation="sdpa", train_on_inputs=True)
trainer = setup_model_and_trainer(made, load_datasets(cfg=made))[0]
batches = [*trainer.get_train_dataloader()]
starts = [number for number, place in enumerate(batches[0]["position_ids"][0].tolist()) if place == 0
          and batches[0]["input_ids"][0][number] != trainer.processing_class.pad_token_id]
border = batches[0]["labels"][0][starts].tolist()
learned = sum(int((batch["labels"][:, 1:] != -100).sum()) for batch in batches)
apart = sum(label != -100 for row in trainer.train_dataset["labels"] for label in row)
say("right" if len(starts) == 2 and border[1] == -100 and learned == apart else "wrong",
    f"{len(batches)} sequence; positions begin at {starts} with labels {border}; {learned} of {apart} tokens learned")
