"""Trained numbers of an adapter's run, and of the run that is resumed from its checkpoint; the base afterwards."""
import torch
from _tiny import LORA, folder, say, trainer, turns

rows, place = [turns("ab", "c" * 9)] * 2, folder()
one, again = trainer(rows, place, {"lora": LORA, "save_steps": 2}), trainer(rows, place, {"lora": LORA, "epochs": 2})
base = {name: values.clone() for name, values in again.model.named_parameters() if "lora" not in name}
one.train()
again.train(resume_from_checkpoint=f"{one.trainer.args.output_dir}/checkpoint-2")
counts = [sum(p.numel() for p in made.trainer.model.parameters() if p.requires_grad) for made in (one, again)]
after = dict(again.trainer.model.named_parameters())
same = all(torch.equal(values, after[name]) for name, values in base.items())
say("right" if counts[0] == counts[1] and same else "wrong", f"{counts[0]} and {counts[1]} trained numbers; the base has "
    f"the same bits: {same}; {again.trainer.state.global_step} steps")
