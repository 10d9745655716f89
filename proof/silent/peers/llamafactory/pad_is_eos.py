"""Padding is the end of text: of two rows of other lengths the stop token is learned and padding is not."""
from _tiny import encoded, folder, say
from llamafactory.data import TEMPLATES, SFTDataCollatorWith4DAttentionMask

rows = [{"instruction": "ab", "input": "", "output": text} for text in ("c", "c" * 20)]
tokens, made = encoded(rows, folder(pad_token="<|im_end|>"))
collator = SFTDataCollatorWith4DAttentionMask(template=TEMPLATES["qwen"], tokenizer=tokens, label_pad_token_id=-100)
labels = collator([dict(row) for row in made])["labels"]
ends = [int((row == tokens.eos_token_id).sum()) for row in labels]
say("right" if ends == [1, 1] else "wrong", f"stop tokens learned: {ends} of {[int((row != -100).sum()) for row in labels]} tokens")
