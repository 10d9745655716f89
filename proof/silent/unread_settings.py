"""Settings are validated and documented, and nothing reads them: the run is the same to the bit.

Reported: NeMo-RL#3792, ms-swift#10196, Soup (release notes of v0.73.3 and v0.75).
"""

from proof.silent._harness import Found, refused
from workings.config.load import load_recipe

UNREAD = ("training.stps=4", "algorithm.beta=0.2", "training.final_share=0.1", "evaluation={samples: 3}",
          "method={name: full, rank: 8}")


def check() -> Found:
    """Unknown keys, keys of another algorithm or method, and keys that another one switches off are refused."""
    found = [refused(lambda word=word: load_recipe("smoke-tiny", [word]), word.partition("=")[0].partition(".")[2])
             for word in UNREAD]
    return next((one for one in found if one.verdict == "wrong"), found[2])
