"""The last, incomplete update of an epoch is divided by the full number of micro batches.

Reported: transformers PR 39659.
"""

from proof.silent._harness import Found, batch, learned, opened, right_if


def check(engine: str) -> Found:
    """Three rows in room for four have the loss and the gradient of three rows."""
    model, rows = opened(engine), learned(5, 9, 14)
    whole = model.step(model.init(0), batch(rows), 1e-3)[1]
    padded = model.step(model.init(0), batch([*rows, []], micro=2), 1e-3)[1]
    return right_if(abs(whole.loss - padded.loss) < 1e-5 and abs(whole.grad_norm - padded.grad_norm) < 1e-4,
                    f"loss {padded.loss:.5f} of 2 x 2 with one empty row, {whole.loss:.5f} of the three rows alone")
