"""Packing miscounts its rows, or lets the last token of a document predict the first token of the next one.

Reported: axolotl#3152, axolotl#3849, trl#3067.
"""

from proof.silent._harness import Found, batch, learned, right_if


def check() -> Found:
    """The border of two rows predicts nothing, positions begin anew, and no row is lost."""
    first, second = learned(9, 12)
    packed = batch([[first, second]])
    border = len(first.tokens) - 1
    return right_if(
        packed.loss_mask[0, 0, border] == 0 and packed.positions[0, 0, border + 1] == 0
        and packed.supervised_tokens == 21,
        f"loss mask {packed.loss_mask[0, 0, border]:g} and next position {packed.positions[0, 0, border + 1]} at the "
        f"border; {packed.supervised_tokens} of 21 tokens learned")
