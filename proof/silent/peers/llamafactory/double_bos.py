"""A template that writes BOS once, with a tokenizer that adds one and with one that does not; two turns."""
from _tiny import CHATML, encoded, folder, say
from tokenizers.processors import TemplateProcessing

rows, counts = [{"instruction": "2?", "input": "", "output": "3", "history": [["1?", "2"]]}], {}
columns = {"prompt": "instruction", "query": "input", "response": "output", "history": "history"}
adds = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 256)])
for template in ("llama3", None):
    for name, post in (("adds", adds), ("does not", None)):
        place = folder("{{ bos_token }}" + CHATML, post)
        tokens, made = encoded(rows, place, {"columns": columns}, template=template)
        counts[template or "the tokenizer's own", name] = made[0]["input_ids"].count(tokens.bos_token_id)
say("right" if {*counts.values()} == {1} else "wrong", "; ".join(
    f"template {template}, tokenizer {name}: {count} BOS" for (template, name), count in counts.items()))
