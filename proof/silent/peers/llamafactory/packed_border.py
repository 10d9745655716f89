"""Two rows packed with `neat_packing`: what the border predicts, also where the prompt is learned; learned tokens."""
from _tiny import encoded, folder, say

rows, place, found = [{"instruction": "ab", "input": "", "output": letter * 9} for letter in "cd"], folder(), {}
for name, asked in (("answers", {}), ("train_on_prompt", {"train_on_prompt": True})):
    apart, packed = (list(encoded(rows, place, **asked, **more)[1]) for more in ({}, {"packing": True, "neat_packing": True}))
    learned = [sum(x != -100 for row in made for x in row["labels"][1:]) for made in (apart, packed)]
    starts = [number for number, place_in in enumerate(packed[0]["position_ids"][:-1]) if place_in == 0 and
              packed[0]["attention_mask"][number]]
    found[name] = [packed[0]["labels"][number] for number in starts[1:]], *learned
right = all(border == [-100] and packed == apart for border, apart, packed in found.values())
say("right" if right else "wrong", "; ".join(
    f"{name}: label at the second row's start {border}, {packed} of {apart} tokens learned"
    for name, (border, apart, packed) in found.items()))
