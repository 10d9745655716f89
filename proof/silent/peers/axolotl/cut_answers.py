"""A prompt that is longer than `sequence_len`, and an answer of 20 tokens, with `excess_length_strategy: truncate`."""
from _tiny import said, say, trained

rows = [{"messages": [{"role": "user", "content": "a" * 1000}, {"role": "assistant", "content": "b" * 20}]}] * 2
try:
    log = trained(rows, sequence_len=32, excess_length_strategy="truncate")
    warned = "no trainable" in said.getvalue()
    say("warned" if warned else "wrong", f"trained to its end, loss {log[0]['loss']}, {log[0]['tokens/trainable']} learned "
        f"tokens; warned of it: {warned}")
except (ValueError, RuntimeError) as error:
    say("refused", " ".join(str(error).split())[:150])
