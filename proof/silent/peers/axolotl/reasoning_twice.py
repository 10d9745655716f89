"""The reasoning in the field `reasoning_content` and in the content, with axolotl's template `qwen3`."""
from _tiny import encoded, folder, say, texts

row = {"messages": [{"role": "user", "content": "7+5?"}, {
    "role": "assistant", "content": "<think>\nSTEP\n</think>\n\n12", "reasoning_content": "STEP"}]}
tokens, rows = encoded([row] * 2, folder(), chat_template="qwen3", sequence_len=4096)
_, learned = texts(tokens, rows[0])
say("right" if learned.count("STEP") == 1 else "wrong", f"learned is {learned!r}")
