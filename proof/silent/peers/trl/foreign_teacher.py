"""Distillation from a folder whose tokenizer gives the same letters other ids; documented is that it must not."""
import tempfile

from _tiny import USUAL, logged, model, say, tokenizer
from datasets import Dataset
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast
from trl import DistillationConfig, DistillationTrainer

other = tokenizer().backend_tokenizer.to_str().replace('"a":', '"@":', 1).replace('"b":', '"a":', 1).replace('"@":', '"b":', 1)
teacher = tempfile.mkdtemp()
made = model()
made.lm_head.weight.data.mul_(9)
made.save_pretrained(teacher)
PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(other), eos_token="<|im_end|>").save_pretrained(teacher)
args = DistillationConfig(tempfile.mkdtemp(), max_completion_length=4, **USUAL)
try:
    trainer = DistillationTrainer(model(), teacher, args, Dataset.from_list([{"prompt": "ab"}] * 8),
                                  processing_class=tokenizer())
    trainer.train()
    say("wrong", f"the size of the vocabulary alone is compared; trained to its end, loss {logged(trainer, 'loss')[0]}")
except ValueError as error:
    say("refused", " ".join(str(error).split())[:150])
