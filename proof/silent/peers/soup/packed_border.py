"""Three rows packed into one sequence: what the border predicts, and how many tokens are learned."""
from _tiny import folder, say, trainer, turns

rows, place = [turns("ab", letter * count) for letter, count in (("c", 9), ("d", 12), ("e", 3))], folder()
counts, border = [], []
for packing in (False, True):
    made = trainer(rows, place, {"packing": packing, "batch_size": 1})
    data = made.trainer.train_dataset
    batches = [made.trainer.data_collator([data[number]]) for number in range(len(data))]
    counts.append(sum(int((batch["labels"][:, 1:] != -100).sum()) for batch in batches))
    starts = [number for number, token in enumerate(batches[0]["input_ids"][0]) if token == made.tokenizer.convert_tokens_to_ids("<|im_start|>")]
    border = batches[0]["labels"][0][starts].tolist()
say("right" if counts[0] == counts[1] and {*border} == {-100} else "wrong",
    f"{counts[1]} of {counts[0]} tokens learned in {len(data)} sequence; labels at the starts of turns {border}")
