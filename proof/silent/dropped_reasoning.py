"""The chat template drops the reasoning of the answer that is learned: traces vanish from the fine-tuning.

Reported: trl#6361, fw-ai/cookbook#554, LlamaFactory#10530 (Qwen 3.5, Gemma 4).
"""

from proof.silent._harness import Found, Trace, right_if, rows_of, texts
from tests.models.chat_templates import QWEN3, QWEN3_5, R1, qwen, tokenizer
from tests.models.thinking_templates import gemma4
from workings.models.chat import ChatTemplate

TRACE = Trace(id="x", prompt="What is 1+1?", steps=("one and one is two",), answer="2")


def r1() -> ChatTemplate:
    """A template like DeepSeek R1's, which cuts the reasoning of every answer that it is given."""
    settings = {"bos_token": "<bos>", "eos_token": "<eos>", "chat_template": R1}
    marks = tokenizer(("<|Assistant|>", "<|User|>"), **settings)
    return ChatTemplate.for_config("tokenizer", marks, "think")


def check() -> Found:
    """With four families of thinking templates the reasoning is in the row, and learned, once."""
    found = {}
    for name, template, reasoning in (("qwen3", qwen(QWEN3, "think"), "think"), ("r1", r1(), "think"),
                                      ("gemma4", gemma4("small"), "channel"),
                                      ("qwen3.5", qwen(QWEN3_5, "think"), "think")):
        said = texts(template, rows_of(template, TRACE, reasoning=reasoning).rows[0])[1]
        found[name] = said.count("one and one is two"), said.count("2")
    return right_if({*found.values()} == {(1, 1)}, f"reasoning and answer are learned once with {', '.join(found)}")
