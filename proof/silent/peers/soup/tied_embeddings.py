"""An adapter on an output matrix that is tied to the embedding: trained, merged, saved and opened again."""
import warnings

import torch
from _tiny import folder, say, trainer, turns
from soup_cli.cli import app
from transformers import LlamaForCausalLM
from typer.testing import CliRunner

place, ids = folder(shape={"tie_word_embeddings": True}), torch.arange(97, 117)[None]
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    try:
        made = trainer([turns("ab", "c" * 9)] * 5, place, {"lora": {"r": 4, "alpha": 8, "target_modules": ["lm_head"]}, "lr": 0.1})
        made.train()
        tuned = made.trainer.model.eval()(ids).logits
        done = CliRunner().invoke(app, ["merge", "-a", made.trainer.args.output_dir, "-b", place, "-o", "tied", "--dtype", "float32"])
        assert done.exit_code == 0, done.output
        apart = (tuned - LlamaForCausalLM.from_pretrained("tied", dtype=torch.float32)(ids).logits).abs().max().item()
        warned = any("tie" in str(one.message).lower() for one in said) or "tied" in done.output
        say("right" if apart < 1e-3 else "warned" if warned else "wrong",
            f"logits of the run and of the merged folder differ by {apart:.2g}; warned of tied weights: {warned}")
    except (ValueError, RuntimeError) as error:
        say("refused", " ".join(str(error).split())[:150])
