"""Trained numbers of an adapter's run, and of the run that is resumed from its checkpoint; the base afterwards."""
import torch
from _tiny import arguments, folder, run_exp, say, weights
from transformers import TrainerCallback

kept = []


class Watch(TrainerCallback):
    def on_train_end(self, args, state, control, model=None, **more):
        kept.append(model)


rows, place = [{"instruction": "ab", "input": "", "output": "c" * 9}] * 8, folder()
asked = {"finetuning_type": "lora", "lora_target": "q_proj", "save_strategy": "steps", "save_steps": 2}
first = arguments(rows, place, max_steps=2, **asked)
run_exp(first, callbacks=[Watch()])
run_exp(arguments(rows, place, max_steps=4, **asked, resume_from_checkpoint=f"{first['output_dir']}/checkpoint-2"),
        callbacks=[Watch()])
counts, base = [sum(p.numel() for p in one.parameters() if p.requires_grad) for one in kept], weights(place)
same = all(torch.equal(values.float(), base[name.removeprefix("base_model.model.").replace("base_layer.", "")].float())
           for name, values in kept[1].named_parameters() if "lora" not in name)
say("right" if counts[0] == counts[1] and same else "wrong", f"{counts[0]} and {counts[1]} trained numbers; the base has "
    f"the same bits: {same}")
