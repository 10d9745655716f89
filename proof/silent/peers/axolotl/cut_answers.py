"""A prompt that is longer than `sequence_len`, with both ways to handle it."""
from _tiny import say, trained

rows = [{"messages": [{"role": "user", "content": "a" * 90}, {"role": "assistant", "content": "b" * 9}]}] * 2
found = []
for handling in ("truncate", "drop"):
    try:
        log = trained(rows, sequence_len=64, excess_length_strategy=handling)
        found.append(f"`{handling}` trained to its end, loss {log[0].get('loss')}")
    except (ValueError, ZeroDivisionError) as error:
        found.append(f"`{handling}` is refused: {' '.join(str(error).split())[:80]}")
say("wrong" if any("trained" in text for text in found) else "refused", "; ".join(found))
