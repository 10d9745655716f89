"""Tools with each of Unsloth's templates that reads them, and the names of those that do not."""
from _tiny import TALK, by_template, say

tool = {"type": "function", "function": {"name": "weather", "description": "of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}}}}
drops, tried = [], 0
for name, tokens in by_template():
    if "tools" in tokens.chat_template:
        tried += 1
        try:
            if "weather" not in tokens.apply_chat_template(TALK[1:], tools=[tool], tokenize=False):
                drops.append(name)
        except Exception:  # noqa: BLE001 - templates raise their own
            drops.append(f"{name} (refused)")
say("wrong" if drops else "right", f"of {tried} templates that name tools leave them out: {', '.join(drops) or 'none'}")
