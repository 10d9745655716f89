"""A run of three batches is resumed with two other batches."""
import tempfile

from _tiny import apart, rows, say, sft

folder = tempfile.mkdtemp()
first = sft([rows(8)] * 3, checkpoint_root_directory=folder)
try:
    again = sft([rows(20), rows(21)], checkpoint_root_directory=folder)
    moved = apart(first, again)
    say("right" if moved else "wrong", f"ends without a word; {again.train_steps - 3} updates, weights moved by {moved}")
except (ValueError, RuntimeError) as error:
    say("refused", " ".join(str(error).split())[:150])
