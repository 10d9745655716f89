"""A template that writes no token after the answer."""
from _tiny import CHATML, model_folder, say, trainer, turns

try:
    one = trainer([turns("1+1?", "2")] * 2, model_folder(CHATML.replace("+ '<|im_end|>\n' }}{% endfor %}", "}}{% endfor %}")))
    labels = one.data_collator([one.train_dataset[0]])["labels"][0]
    text = one.processing_class.decode(labels[labels != -100])
    say("right" if text.endswith("<|im_end|>") else "wrong", f"learned is {text!r}")
except (ValueError, RuntimeError) as error:
    say("refused", " ".join(str(error).split())[:150])
