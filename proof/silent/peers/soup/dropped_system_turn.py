"""A system turn with each of Soup's templates."""
from _tiny import folder, say, texts, trainer
from soup_cli.data.chat_templates import list_template_names

rows = [{"messages": [{"role": "system", "content": "PIRATE"}, {"role": "user", "content": "Hi"},
                      {"role": "assistant", "content": "Ahoy"}]}] * 2
place, drops, refuse = folder(), [], []
for name in list_template_names():
    try:
        if "PIRATE" not in "".join(texts(trainer(rows, place, chat_template=name))):
            drops.append(name)
    except Exception:  # noqa: BLE001 - the template refuses such a turn
        refuse.append(name)
say("wrong" if drops else "right", f"of {len(list_template_names())} templates leave it out: {', '.join(drops) or 'none'}; "
    f"refuse it: {', '.join(refuse) or 'none'}")
