"""DPO with pairs whose chosen and rejected completion are the same."""
import io
import logging
import tempfile

from _tiny import USUAL, logged, model, say, tokenizer
from datasets import Dataset
from trl import DPOConfig, DPOTrainer

said = io.StringIO()
logging.getLogger("trl").addHandler(logging.StreamHandler(said))
model().save_pretrained(folder := tempfile.mkdtemp())
pairs = Dataset.from_list([{"prompt": "ab", "chosen": "good", "rejected": "good"}] * 2)
try:
    trainer = DPOTrainer(folder, args=DPOConfig(tempfile.mkdtemp(), **USUAL), train_dataset=pairs,
                         processing_class=tokenizer())
    trainer.train()
    warned = "same" in said.getvalue() or "identical" in said.getvalue()
    say("warned" if warned else "wrong", f"trained to its end, gradient norm {logged(trainer, 'grad_norm')[0]}")
except ValueError as error:
    say("refused", " ".join(str(error).split())[:150])
