"""A template that writes BOS, and a tokenizer that adds one; with and without the mask of answers."""
from _tiny import MARKED, SUM, folder, say, trainer
from tokenizers.processors import TemplateProcessing

place = folder("{{ bos_token }}" + MARKED, TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 256)]))
made = [trainer(SUM, place, train_on_responses_only=only) for only in (True, False)]
counts = [list(one.trainer.train_dataset[0]["input_ids"]).count(one.tokenizer.bos_token_id) for one in made]
say("right" if counts == [1, 1] else "wrong", f"BOS tokens: {counts[0]} with the mask of answers, {counts[1]} without")
