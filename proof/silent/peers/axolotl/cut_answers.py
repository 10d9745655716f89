"""A prompt longer than `sequence_len` and an answer, with `excess_length_strategy: truncate`; without and with packing."""
from _tiny import said, say, trained

rows, found = [{"messages": [{"role": "user", "content": "a" * 1000}, {"role": "assistant", "content": "b" * 20}]}] * 2, []
for packing in (False, True):
    try:
        loss = trained(rows, sequence_len=32, excess_length_strategy="truncate", sample_packing=packing, attn_implementation="sdpa")
        found.append(f"trained to its end, loss {loss[0]['loss']}, warned of it: {'no trainable' in said.getvalue()}")
    except (ValueError, RuntimeError) as error:
        found.append(" ".join(str(error).split())[:80])
say("wrong" if "warned of it: False" in " ".join(found) else "refused", f"without packing {found[0]}; with packing {found[1]}")
