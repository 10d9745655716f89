"""Trained numbers of an adapter's run, and of the run that is resumed from its checkpoint; the base afterwards."""
import torch
from _tiny import LORA, SUM, folder, run, say, weights

place = folder()
asked = LORA | {"num_epochs": 9}
one = run(SUM, place, **asked, max_steps=2, save_strategy="steps", save_steps=2)
again = run(SUM, place, **asked, max_steps=4, resume_from_checkpoint=f"{one.args.output_dir}/checkpoint-2")
counts = [sum(p.numel() for p in each.model.parameters() if p.requires_grad) for each in (one, again)]
base = weights(place)
same = all(torch.equal(values.float(), base[name.removeprefix("base_model.model.").replace("base_layer.", "")].float())
           for name, values in again.model.named_parameters() if "lora" not in name)
say("right" if counts[0] == counts[1] and same else "wrong", f"{counts[0]} and {counts[1]} trained numbers; the base has "
    f"the same bits: {same}")
