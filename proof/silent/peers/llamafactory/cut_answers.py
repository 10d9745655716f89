"""A prompt that is much longer than `cutoff_len`, and an answer of 20 tokens."""
from _tiny import encoded, say, trained

rows = [{"instruction": "a" * 1000, "input": "", "output": "b" * 20}] * 2
try:
    _, made = encoded(rows, cutoff_len=32)
    log, _ = trained(rows, cutoff_len=32)
    counts = [sum(x != -100 for x in row["labels"]) for row in made]
    say("right" if all(counts) else "wrong", f"learned tokens {counts}; trained to its end, loss {log[0]['loss']}")
except (ValueError, RuntimeError) as error:
    say("refused", " ".join(str(error).split())[:150])
