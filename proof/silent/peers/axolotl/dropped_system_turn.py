"""A system turn with each of axolotl's templates for text."""
from _tiny import encoded, folder, say
from axolotl.utils.chat_templates.base import _CHAT_TEMPLATES

row = {"messages": [{"role": "system", "content": "PIRATE"}, {"role": "user", "content": "Hi"},
                    {"role": "assistant", "content": "Ahoy"}]}
place, tried, drops, refused = folder(), 0, [], []
for name in sorted(_CHAT_TEMPLATES):
    try:
        tokens, rows = encoded([row] * 2, place, chat_template=name, sequence_len=4096)
    except Exception:  # noqa: BLE001 - the template refuses such a turn
        refused.append(name)
        continue
    tried += 1
    if "PIRATE" not in tokens.decode(rows[0]["input_ids"]):
        drops.append(name)
say("wrong" if drops else "right", f"of {tried} templates leave it out: {', '.join(drops) or 'none'}; refused: {', '.join(refused)}")
