"""An adapter on a base of four bits, merged by `axolotl merge-lora`: the merged weights, next to the run's."""
import tempfile

from _tiny import CHATML, LORA, SUM, config, model_folder, run, say, weights
from axolotl.cli.merge_lora import do_cli
from bitsandbytes.functional import dequantize_4bit

place = model_folder(CHATML, None, {"hidden_size": 64, "intermediate_size": 128})
asked = LORA | {"adapter": "qlora", "load_in_4bit": True, "output_dir": tempfile.mkdtemp()}
model = run(SUM * 5, place, **asked, max_steps=5, learning_rate=0.1).model
do_cli(config=config(SUM, place, **asked).axolotl_config_path)
merged, base, four, whole = weights(f"{asked['output_dir']}/merged"), weights(place), [], []
for name, module in model.named_modules():
    if hasattr(module, "lora_A"):
        key, below = name.removeprefix("base_model.model.") + ".weight", module.base_layer.weight
        tuned = merged[key].float() - module.get_delta_weight("default")
        four.append((tuned - dequantize_4bit(below.data, below.quant_state).float()).abs().max().item())
        whole.append((tuned - base[key].float()).abs().max().item())
say("right" if max(four) < 1e-3 < max(whole) else "wrong", f"merged weights without the adapter differ by {max(four):.1e} "
    f"from what the four bits represent, by {max(whole):.1e} from those of 16 bits")
