"""The padding token is the end of text: masking all padding masks the stop token as well.

Reported: granite-3.1-language-models#2.
"""

from proof.silent._harness import TEMPLATES, Found, Trace, batch, right_if, rows_of


def check() -> Found:
    """With pad = EOS the one after the answer counts and those after it do not."""
    template = TEMPLATES["gpt2"][0]()
    row = rows_of(template, Trace(id="x", prompt="1+1?", steps=(), answer="2")).rows[0]
    stop, end = template.stop_ids[0], len(row.tokens)
    made = batch([row], length=end + 5)
    made.tokens[0, 0, end:] = stop
    return right_if(made.targets[0, 0, end - 2] == stop and made.loss_mask[0, 0, end - 2] == 1
                    and not made.loss_mask[0, 0, end - 1:].any() and not made.segment_ids[0, 0, end:].any(),
                    "the stop token is learned and five paddings of the same id are not")
