"""A template that writes BOS, and a tokenizer that adds one."""
from _tiny import CHATML, SUM, encoded, folder, say
from tokenizers.processors import TemplateProcessing

place = folder("{{ bos_token }}" + CHATML, TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 256)]))
tokens, rows = encoded(SUM, place)
count = list(rows[0]["input_ids"]).count(tokens.bos_token_id)
say("right" if count == 1 else "wrong", f"BOS tokens: {count}")
