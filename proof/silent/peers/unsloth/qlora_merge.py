"""An adapter on a base of four bits, merged by `save_pretrained_merged`."""
import tempfile

from _tiny import CHATML, model_folder, say, trainer, turns

one = trainer([turns("ab", "c" * 9)] * 5, model_folder(CHATML, None, {"hidden_size": 64, "intermediate_size": 128}),
              asked={"load_in_4bit": True})
one.train()
try:
    one.model.save_pretrained_merged(tempfile.mkdtemp(), one.processing_class)
    say("wrong", f"merged without a word from {type(one.model.base_model.model.model.layers[0].mlp.down_proj).__name__}")
except NotImplementedError as error:
    say("refused", " ".join(str(error).split())[:150])
