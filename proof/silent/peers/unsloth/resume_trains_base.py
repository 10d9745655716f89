"""Trained numbers of an adapter's run, and of the one that `from_pretrained` opens from its checkpoint; the base."""
import torch
from _tiny import CHATML, FastLanguageModel, loaded, model_folder, say, trainer, turns, weights

place = model_folder(CHATML)
one = trainer([turns("ab", "c" * 9)] * 2, place, max_steps=2, save_strategy="steps", save_steps=2)
one.train()
again = FastLanguageModel.get_peft_model(loaded(f"{one.args.output_dir}/checkpoint-2", {}, full_finetuning=False)[0], r=4)
counts = [sum(p.numel() for p in each.parameters() if p.requires_grad) for each in (one.model, again)]
base = weights(place)
same = all(torch.equal(values.float(), base[name.removeprefix("base_model.model.").replace("base_layer.", "")].float())
           for name, values in again.named_parameters() if "lora" not in name)
say("right" if counts[0] == counts[1] and same else "wrong", f"{counts[0]} and {counts[1]} trained numbers; the base has "
    f"the same bits: {same}")
