"""How a trace's steps and answer become the text that a model is trained to write."""

from workings.data.traces import Trace
from workings.errors import RequestError

STYLES = ("tags", "think", "hashes", "answer_only")
"""The values of the recipe key `data.reasoning`."""


def completion_text(trace: Trace, reasoning: str) -> str:
    """What the model has to write after the prompt, without any chat turn around it.

    Args:
        trace: steps and answer.
        reasoning: one of `STYLES`.

    Raises:
        RequestError: when the style shows steps and the trace has none: such a row would teach that there are none.
    """
    if reasoning == "answer_only":
        return trace.answer
    if not any(step.strip() for step in trace.steps):
        raise RequestError(f"trace {trace.id}: no steps", f"steps, because data.reasoning is {reasoning}",
                           "data.reasoning=answer_only, or traces with steps")
    steps = "\n".join(trace.steps)
    if reasoning == "tags":
        return f"<reasoning>{steps}</reasoning><answer>{trace.answer}</answer>"
    if reasoning == "think":
        return f"<think>\n{steps}\n</think>\n\n{trace.answer}"
    if reasoning == "hashes":
        return f"{steps}\n#### {trace.answer}"
    raise RequestError(f"data.reasoning: {reasoning}", f"one of {', '.join(STYLES)}")
