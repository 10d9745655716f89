"""Five rows of an evaluation in batches of eight and of two: the last row counts in both."""
import json
import tempfile
from pathlib import Path

from _tiny import SUM, folder, run, say


def loss(texts, size):
    data = Path(tempfile.mkdtemp(), "rows.jsonl")
    data.write_text("".join(json.dumps({"messages": [{"role": "user", "content": "ab"}, {"role": "assistant", "content": text}]})
                            + "\n" for text in texts))
    one = run(SUM, place, eval_batch_size=size, eval_strategy="no", learning_rate=1e-9, test_datasets=[{
        "path": str(data), "ds_type": "json", "split": "train", "type": "chat_template", "field_messages": "messages"}])
    return one.evaluate()["eval_loss"]


place, rows = folder(), ["cccccc", "dddddd", "eeeeee", "ffffff", "gggggg"]
moved = [abs(loss(rows, size) - loss([*rows[:4], "zyxwvu"], size)) for size in (8, 2)]
say("right" if min(moved) > 1e-4 else "wrong", f"another last row moves the loss by {moved[0]:.4f} and {moved[1]:.4f}")
