"""The collator of PEFT's and transformers' guides with a padding token that is the end of text: what is learned."""
from _tiny import say
from tokenizers import Tokenizer, models
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerFast

base = Tokenizer(models.WordLevel({"<eos>": 0, "a": 1, "b": 2}, unk_token="a"))
tokens = PreTrainedTokenizerFast(tokenizer_object=base, eos_token="<eos>", pad_token="<eos>")
rows = [{"input_ids": [1, 2, 0]}, {"input_ids": [1, 2, 2, 2, 0]}]
labels = DataCollatorForLanguageModeling(tokens, mlm=False)(rows)["labels"].tolist()
ends = [row.count(0) for row in labels]
say("right" if ends == [1, 1] else "wrong", f"stop tokens learned: {ends}; labels {labels}")
