"""The newest checkpoint is incomplete after a crash, and is taken or breaks the resumption.

Reported: transformers#35782, axolotl#3948.
"""

from proof.silent._harness import Found, right_if, temporary
from workings.record.checkpoints import CheckpointStore


def check() -> Found:
    """A damaged newest checkpoint is left out, and the one before it is taken."""
    with temporary() as folder:
        store = CheckpointStore(folder / "checkpoints", keep_last=3)
        for step in (2, 4):
            last = store.save(step, lambda place: (place / "weights").write_bytes(b"weights"), {})
        (last / "weights").write_bytes(b"weigh")
        found, skipped = store.latest_valid()
    return right_if(found is not None and found.step == 2 and skipped,
                    f"step {found.step if found else 'none'} of 2 and 4 is taken; {skipped}")
