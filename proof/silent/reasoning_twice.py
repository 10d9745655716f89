"""The reasoning is in a field and in the content, and is learned twice.

Reported: LlamaFactory#9092, LlamaFactory#9765, trl PR 5824.
"""

from proof.silent._harness import Found, refused, right_if, temporary
from tests.data.making import imported


def check() -> Found:
    """Equal texts count once; different ones are refused."""
    def record(field: str) -> dict[str, object]:
        return {"messages": [{"role": "user", "content": "7+5?"}, {
            "role": "assistant", "content": "<think>7+5=12</think>12", "reasoning_content": field}]}

    with temporary() as folder:
        _, [trace] = imported(folder, "messages", record("7+5=12"))
        other = refused(lambda: imported(folder, "messages", record("7 and 5"), on_error="fail"), "reasoning")
    return right_if((trace.steps, trace.answer) == (("7+5=12",), "12") and other.verdict == "refused",
                    f"steps {trace.steps}, answer {trace.answer!r}; different ones: {other.evidence[:90]}")
