"""Marks that forbid learning a turn (`weight: 0`, `train: false`) are dropped, and the forbidden turn is learned.

Reported: verl PR 5472, axolotl#1703.
"""

from proof.silent._harness import Found, gemma, right_if, rows_of, temporary, texts
from tests.data.making import imported


def check() -> Found:
    """Each of five marks keeps its turn out of what is learned."""
    said = {}
    for mark, value in (("weight", 0), ("train", False), ("loss", 0), ("trainable", False), ("loss_mask", 0)):
        turns = [{"role": "user", "content": "2+5?"}, {"role": "assistant", "content": "eight", mark: value},
                 {"role": "user", "content": "Sure?"}, {"role": "assistant", "content": "seven"}]
        with temporary() as folder:
            _, [trace] = imported(folder, "messages", {"messages": turns})
        said[mark] = texts(gemma(), rows_of(gemma(), trace, learn="all").rows[0])[1]
    return right_if(all("seven" in text and "eight" not in text for text in said.values()),
                    f"with {', '.join(said)} only the other turn is learned: {said['weight']!r}")
