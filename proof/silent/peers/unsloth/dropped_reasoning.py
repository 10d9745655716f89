"""The reasoning of the answer that is learned, in a field and between the template's own marks, with Unsloth's templates."""
from _tiny import by_template, say

field = {"reasoning_content": "STEP", "thinking": "STEP", "content": "TWO"}
found = {}
for name, tokens in by_template():
    forms = [field] + [{"content": f"{mark}\nSTEP\n{end}TWO"} for mark, end in (
        ("<think>", "</think>"), ("<|channel>thought", "<channel|>")) if mark in tokens.chat_template]
    if "reasoning_content" in tokens.chat_template or "thinking" in tokens.chat_template:
        texts = [tokens.apply_chat_template([{"role": "user", "content": "1+1?"}, {"role": "assistant", **one}], tokenize=False)
                 for one in forms]
        found[name] = any((text.count("STEP"), text.count("TWO")) == (1, 1) for text in texts)
drops = [name for name, kept in found.items() if not kept]
say("wrong" if drops else "right", f"of {len(found)} templates that name reasoning leave it out in either form: {', '.join(drops) or 'none'}")
