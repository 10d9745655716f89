"""The table of formats: each with the keys that a record needs, and how it becomes a trace, a pair or a verdict.

What a format does not name is kept as metadata.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from workings.data.importing import pair_formats as pairs
from workings.data.importing import trace_formats as single
from workings.data.importing.completion import split_any, split_tagged
from workings.data.importing.convert import Parts, Record
from workings.data.importing.fields import OPENAI, SHAREGPT

QUESTIONS = ("prompt", "question", "instruction", "problem", "query")
_TAGGED = ("completion", "response", "output", "answer", "text")
ANSWERS = ("answer", "solution", "response", "output", "completion")


RAW_TEXT = "text"
"""The format of raw texts."""


@dataclass(frozen=True)
class Format:
    """A value of `--format`."""

    gives: Literal["traces", "pairs", "verdicts", "texts"]
    keys: str
    """The keys that a record needs, in words."""
    read: Callable[[Record], Parts]
    """Raises `ValueError` with a reason to follow `file:line:`."""


# A record is read as the first format that reads it. Pairs first, because a record of pairs often holds a
# conversation as well; then from the strictest reader to the one that reads the most.
FORMATS: dict[str, Format] = {
    # Data set HuggingFaceH4/ultrafeedback_binarized.
    "ultrafeedback": Format("pairs", "prompt, chosen, rejected, score_chosen, score_rejected", pairs.ultrafeedback),
    # LLaMA-Factory, data/README.md, preference data sets in the formats sharegpt and alpaca.
    "llamafactory": Format("pairs", "conversations, chosen, rejected; or instruction, input, chosen, rejected",
                           pairs.llamafactory),
    # Data set Anthropic/hh-rlhf.
    "hh": Format("pairs", "chosen, rejected: dialogues of Human: and Assistant:", pairs.hh),
    # TRL, "Dataset formats and types", for these two and for kto.
    "chosen-rejected": Format("pairs", "chosen, rejected, which begin with the same prompt", pairs.implicit),
    "prompt-chosen-rejected": Format("pairs", "prompt, chosen, rejected: texts or lists of turns", pairs.explicit),
    "preferences": Format("pairs", "prompt, chosen, rejected, history", pairs.preferences),
    "kto": Format("verdicts", "label or kto_tag; prompt, completion or messages or conversations or instruction, "
                  "output", pairs.kto),
    "messages": Format("traces", "messages with role, content", partial(single.turns, "messages", OPENAI)),
    "sharegpt": Format("traces", "conversations with from, value", partial(single.turns, "conversations", SHAREGPT)),
    "traces": Format("traces", "prompt, steps, answer", single.traces),
    "gsm8k": Format("traces", "question, answer that ends with a line #### RESULT",
                    partial(single.text, ("question",), ("answer",), single.gsm8k_answer)),
    "tagged": Format("traces", "a question, and a text with <think> or <reasoning> and <answer>",
                     partial(single.text, QUESTIONS, _TAGGED, split_tagged)),
    "alpaca": Format("traces", "instruction, input, output", single.alpaca),
    "prompt-completion": Format("traces", "prompt, completion: texts or lists of turns", single.prompt_completion),
    "question-answer": Format("traces", "a question and an answer under any of their usual names",
                              partial(single.text, QUESTIONS, ANSWERS, split_any)),
    RAW_TEXT: Format("texts", "text: a raw text, with every token learned", single.raw_text),
}
"""The values of `--format`."""

PAIR_FORMATS = tuple(name for name, each in FORMATS.items() if each.gives == "pairs")
"""Those that give preference pairs."""
VERDICT_FORMATS = tuple(name for name, each in FORMATS.items() if each.gives == "verdicts")
"""Those that give verdicts."""
