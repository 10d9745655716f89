"""All weights trained in float32 with a rate of 1e-20."""
import torch
from _tiny import SUM, folder, run, said, say, weights

place = folder()
after = weights(run(SUM, place, learning_rate=1e-20).args.output_dir)
before = weights(place)
same = sum(torch.equal(values, before[name].to(values.dtype)) for name, values in after.items())
warned = "changed" in said.getvalue()
say("right" if same < len(after) else "warned" if warned else "wrong", f"trained to its end without a word; {same} of "
    f"{len(after)} tensors have the same bits in {next(iter(after.values())).dtype} at a rate of 1e-20")
