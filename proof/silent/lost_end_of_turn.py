"""The end of the turn is masked: the model never learns to stop.

Reported: trl#5988, axolotl#3754 (Gemma).
"""

from proof.silent._harness import TEMPLATES, Found, Trace, batch, right_if, rows_of


def check() -> Found:
    """Of five templates the stop token is the last target that counts, once."""
    ends = {}
    for name, (make, *_) in TEMPLATES.items():
        template = make()
        made = batch([rows_of(template, Trace(id="x", prompt="What is 1+1?", steps=(), answer="2")).rows[0]])
        targets = made.targets[0, 0][made.loss_mask[0, 0] > 0].tolist()
        ends[name] = targets[-1] == template.stop_ids[0] and targets.count(template.stop_ids[0]) == 1
    return right_if(all(ends.values()), f"the stop token is the last learned target with {', '.join(ends)}")
