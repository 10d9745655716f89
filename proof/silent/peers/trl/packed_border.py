"""Two rows packed into one sequence: what the border predicts, and how many tokens are learned."""
from _tiny import say, sft

rows = [{"prompt": "ab", "completion": letter * count} for letter, count in (("c", 9), ("d", 12))]
trainer = sft(rows, packing=True, max_length=64)
batch = trainer.data_collator([trainer.train_dataset[0]])
learned = [int((labels != -100).sum()) for labels in batch["labels"]]
starts = [number for number, place in enumerate(batch["position_ids"][0].tolist()) if place == 0]
border = batch["labels"][0][starts].tolist()
say("right" if len(starts) == 2 and border == [-100, -100] and learned == [23] else "wrong",
    f"{len(starts)} starts of positions with labels {border}; {learned[0]} of 23 tokens learned")
