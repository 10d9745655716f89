"""`reasoning_content` of the answer that is learned, with each of axolotl's templates that reads it from a message."""
from _tiny import encoded, folder, say, texts
from axolotl.utils.chat_templates.base import _CHAT_TEMPLATES

row = {"messages": [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "TWO", "reasoning_content": "STEP"}]}
place, found = folder(), {}
for name, source in sorted(_CHAT_TEMPLATES.items()):
    if "reasoning_content" in source:
        tokens, rows = encoded([row] * 2, place, chat_template=name, sequence_len=4096)
        learned = [*texts(tokens, rows[0])][1]
        found[name] = learned.count("STEP"), learned.count("TWO")
drops = [name for name, counts in found.items() if counts != (1, 1)]
say("wrong" if drops else "right", f"of {len(found)} templates leave it out or repeat it: {', '.join(drops) or 'none'}")
