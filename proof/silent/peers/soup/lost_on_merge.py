"""A trained adapter merged by `soup merge`, with and without `--low-memory`, next to PEFT's reading of base and adapter."""
import torch
from _tiny import LORA, folder, say, trainer, turns
from peft import PeftModel
from soup_cli.cli import app
from transformers import LlamaForCausalLM
from typer.testing import CliRunner

place, ids, apart = folder(), torch.arange(97, 117)[None], []
made = trainer([turns("ab", "c" * 9)] * 5, place, {"lora": LORA, "lr": 0.1})
made.train()
out = made.trainer.args.output_dir
base = LlamaForCausalLM.from_pretrained(place, dtype=torch.float32)
first = base(ids).logits
tuned = PeftModel.from_pretrained(base, out)(ids).logits
for more in ([], ["--low-memory"]):
    done = CliRunner().invoke(app, ["merge", "-a", out, "-b", place, "-o", f"merged{len(more)}", "--dtype", "float32", *more])
    assert done.exit_code == 0, done.output
    merged = LlamaForCausalLM.from_pretrained(f"merged{len(more)}", dtype=torch.float32)(ids).logits
    apart.append((tuned - merged).abs().max().item())
moved = (tuned - first).abs().max().item()
say("right" if max(apart) < 1e-3 < moved else "wrong", f"logits differ by {apart[0]:.1e} after the merge, by {apart[1]:.1e} with "
    f"--low-memory; training moved them by {moved:.2f}")
