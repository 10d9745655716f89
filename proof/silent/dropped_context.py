"""A column that the answer depends on (context, system, input, choices) never reaches the model.

Reported: LlamaFactory#7592.
"""

from proof.silent._harness import Found, refused, right_if, temporary
from tests.data.making import imported


def check() -> Found:
    """`context` in a format that does not read it is refused; `system` is the first turn."""
    question = {"question": "Who wrote it?", "answer": "Anna"}
    with temporary() as folder:
        _, [trace] = imported(folder, "question-answer", {**question, "system": "Be brief."})
        dropped = refused(lambda: imported(folder, "question-answer", {**question, "context": "Anna wrote it."},
                                           on_error="fail"), "`context`")
    return right_if(trace.history[0].text == "Be brief." and dropped.verdict == "refused",
                    f"system is read; {dropped.evidence[:110]}")
