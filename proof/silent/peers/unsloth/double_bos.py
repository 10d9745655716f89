"""Each of Unsloth's templates, as a conversation: BOS tokens at its beginning."""
from _tiny import TALK, by_template, say

counts = {}
for name, tokens in by_template():
    try:
        counts[name] = tokens.apply_chat_template(TALK[1:], return_dict=True)["input_ids"][:2].count(tokens.bos_token_id)
    except Exception as error:  # noqa: BLE001 - templates raise their own
        counts[name] = str(error)
more = [f"{name} {count}" for name, count in counts.items() if count not in (0, 1)]
say("wrong" if more else "right", f"templates with another number than 0 or 1: {', '.join(more) or 'none'}")
