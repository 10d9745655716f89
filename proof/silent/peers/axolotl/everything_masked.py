"""Answers of a role that axolotl does not know: every label is masked; without and with `sample_packing`."""
from _tiny import said, say, trained

rows, found = [{"messages": [{"role": "user", "content": "1+1?"}, {"role": "bot", "content": "two"}]}] * 2, []
for packing in (False, True):
    try:
        loss = trained(rows, sample_packing=packing, attn_implementation="sdpa")[0]["loss"]
        found.append(f"trained to its end, loss {loss}, warned of it: {'no trainable' in said.getvalue()}")
    except (ValueError, RuntimeError) as error:
        found.append(" ".join(str(error).split())[:80])
say("wrong" if "warned of it: False" in " ".join(found) else "refused", f"without packing {found[0]}; with packing {found[1]}")
