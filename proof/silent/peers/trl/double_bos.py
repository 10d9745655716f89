"""A template that writes BOS, and a tokenizer that adds one."""
from _tiny import CHATML, say, sft, tokenizer
from tokenizers.processors import TemplateProcessing

tokens = tokenizer("{{ bos_token }}" + CHATML)
tokens.backend_tokenizer.post_processor = TemplateProcessing(
    single="<s> $A", special_tokens=[("<s>", tokens.bos_token_id)])
counts = []
for row in ({"messages": [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]},
            {"prompt": [{"role": "user", "content": "1+1?"}], "completion": [{"role": "assistant", "content": "2"}]}):
    ids = sft([row], tokens=tokens).train_dataset[0]["input_ids"]
    counts.append(list(ids).count(tokens.bos_token_id))
say("right" if counts == [1, 1] else "wrong", f"BOS tokens: {counts[0]} in messages, {counts[1]} in a completion")
