"""Answers of a role that axolotl does not know: every label is masked."""
from _tiny import said, say, trained

rows = [{"messages": [{"role": "user", "content": "1+1?"}, {"role": "bot", "content": "two"}]}] * 2
try:
    log = trained(rows)
    warned = "no trainable" in said.getvalue()
    say("warned" if warned else "wrong", f"trained to its end, loss {log[0]['loss']}; warned of it: {warned}")
except Exception as error:  # noqa: BLE001 - of any library
    say("refused", f"{type(error).__name__}: {' '.join(str(error).split())[:130]}")
