"""Two rows packed into one sequence by transformers' `DataCollatorWithFlattening`: what the border predicts."""
from _tiny import say
from transformers import DataCollatorWithFlattening

rows = [{"input_ids": [*range(5, 5 + count)], "labels": [*range(5, 5 + count)]} for count in (9, 12)]
batch = DataCollatorWithFlattening()(rows)
starts = [number for number, place in enumerate(batch["position_ids"][0].tolist()) if place == 0]
border, learned = batch["labels"][0][starts].tolist(), int((batch["labels"][:, 1:] != -100).sum())
say("right" if starts == [0, 9] and border == [-100, -100] and learned == 19 else "wrong",
    f"positions begin at {starts} with labels {border}; {learned} of 19 tokens learned")
