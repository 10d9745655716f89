"""The reasoning in the field `reasoning_content` and in the content."""
from _tiny import encoded, say, texts

tokens, rows = encoded([{"messages": [{"role": "user", "content": "7+5?"}, {
    "role": "assistant", "content": "<think>\nSTEP\n</think>\n\n12", "reasoning_content": "STEP"}]}], None, {
        "formatting": "openai", "columns": {"messages": "messages"}, "tags": {
            "role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant",
            "system_tag": "system"}}, template="qwen3")
_, learned = texts(tokens, rows[0])
say("right" if learned.count("STEP") == 1 else "wrong", f"learned is {learned!r}")
