"""The column `tools` is dropped: the model learns to call functions that its prompt never names.

Reported: OpenRLHF PR 1228, trl PR 6259, prime-rl PR 2494, ms-swift PR 10125.
"""

from proof.silent._harness import Found, refused, right_if, rows_of, temporary, texts
from tests.data.making import imported
from tests.data.test_nothing_ignored import TOOLS, WEATHER
from tests.models.chat_templates import qwen

CALL = {"messages": [{"role": "user", "content": "Rain in Bern?"}, {"role": "assistant", "content": "I look it up"}],
        "tools": [WEATHER]}


def check() -> Found:
    """A template that takes tools shows them; one that does not is refused."""
    with temporary() as folder:
        _, [trace] = imported(folder, "messages", CALL)
    template = qwen(TOOLS)
    read, _ = texts(template, rows_of(template, trace).rows[0])
    plain = refused(lambda: rows_of(qwen(), trace), "does not show the tools")
    return right_if("weather" in read and plain.verdict == "refused",
                    f"the prompt names the tool: {'weather' in read}; other templates: {plain.evidence[:80]}")
