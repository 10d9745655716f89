"""Two rows packed with `neat_packing`, which is to keep them apart, next to the two rows as a batch."""
from _tiny import folder, say, trained

rows, place = [{"instruction": "abcd", "input": "", "output": text} for text in ("efgh" * 3, "zyxw" * 4)], folder()
losses = [trained(rows, place, per_device_train_batch_size=size, cutoff_len=256, **more)[0][0]["loss"]
          for size, more in ((2, {}), (1, {"packing": True, "neat_packing": True}))]
same = abs(losses[0] - losses[1]) < 1e-3
say("right" if same else "wrong", f"loss {losses[0]:.5f} apart, {losses[1]:.5f} packed into one sequence")
