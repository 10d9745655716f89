"""The tokenizer adds a BOS to the one that the template wrote, or training and serving differ by one.

Reported: unsloth#10312, Soup#781 (measured on 30 models).
"""

from proof.silent._harness import Found, Trace, refused, right_if, rows_of
from tests.models.chat_templates import LLAMA, llama


def check() -> Found:
    """One BOS whether the template writes it or not, in rows and in prompts alike; two are refused."""
    counts = []
    for source in (LLAMA, LLAMA.replace("(bos_token if loop.first else '') + ", "")):
        template = llama(add_bos_token=True, chat_template=source)
        tokens = rows_of(template, Trace(id="x", prompt="1+1?", steps=(), answer="2")).rows[0].tokens.tolist()
        counts += [tokens.count(template.bos_id), template.prompt_ids("1+1?").count(template.bos_id)]
    twice = llama(chat_template=LLAMA.replace("(bos_token if", "(bos_token + bos_token if"))
    second = refused(lambda: rows_of(twice, Trace(id="x", prompt="1+1?", steps=(), answer="2")), "BOS")
    return right_if(counts == [1] * 4 and second.verdict == "refused",
                    f"BOS in rows and prompts: {counts}; twice: {second.evidence[:70]}")
