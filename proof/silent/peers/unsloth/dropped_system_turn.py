"""A system turn with each of Unsloth's templates."""
from _tiny import TALK, by_template, say

drops, refuse = [], []
for name, tokens in by_template():
    try:
        if "PIRATE" not in tokens.apply_chat_template(TALK, tokenize=False):
            drops.append(name)
    except Exception as error:  # noqa: BLE001 - templates raise their own
        refuse.append(f"{name} {error}")
say("wrong" if drops else "right", f"templates that leave it out: {', '.join(drops) or 'none'}; that refuse it: "
    f"{', '.join(refuse) or 'none'}")
