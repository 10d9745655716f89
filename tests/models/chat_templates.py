"""Chat templates on small tokenizers, and the texts that they have to give.

The Llama and Qwen templates are short ones of our own that write the turns which those models publish.
"""

from tokenizers import AddedToken

from workings.config.data import DataConfig
from workings.data.rows import build_rows
from workings.data.traces import Trace
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer
from workings.models.tokenizer_training import train_tokenizer

LLAMA = """{% for message in messages %}{% set text = '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n'
+ message.content | trim + '<|eot_id|>' %}{{ (bos_token if loop.first else '') + text }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"""
QWEN = """{% if messages[0].role != 'system' %}{{ '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}{% endif %}
{%- for message in messages %}{{ '<|im_start|>' + message.role + '\\n' }}
{%- if message.role == 'assistant' %}{% generation %}{{ message.content + '<|im_end|>' }}{% endgeneration %}
{%- else %}{{ message.content + '<|im_end|>' }}{% endif %}{{ '\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
QWEN3 = """{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' }}
{%- if message.role == 'assistant' and loop.last and '<think>' not in message.content %}
{{- '<think>\\n\\n</think>\\n\\n' }}{% endif %}{{ message.content + '<|im_end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
QWEN3_5 = """{% for message in messages %}{% set text = message.content | trim %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.role == 'assistant' and loop.last %}{% set thought = '' %}{% if '</think>' in text %}
{%- set thought = text.split('</think>')[0].split('<think>')[-1] | trim %}
{%- set text = text.split('</think>')[-1] | trim %}{% endif %}
{{- '<think>\\n' + thought + '\\n</think>\\n\\n' }}{% endif %}{{ text + '<|im_end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}
{%- else %}{{ '<think>\\n' }}{% endif %}{% endif %}"""
QWEN3_5_SMALL = QWEN3_5.replace("is false %}{{ '<think>\\n\\n</think>\\n\\n' }}\n{%- else %}{{ '<think>\\n' }}",
                                "is true %}{{ '<think>\\n' }}\n{%- else %}{{ '<think>\\n\\n</think>\\n\\n' }}")
R1 = """{{ bos_token }}{% for message in messages %}{% if message.role == 'assistant' %}
{{- '<|Assistant|>' + message.content.split('</think>')[-1] + eos_token }}{% else %}{{ '<|User|>' + message.content }}
{%- endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|Assistant|><think>\\n' }}{% endif %}"""
TRACE = Trace(id="one", prompt="What is 1+1?", steps=("1+1=2",), answer="2")


def tokenizer(controls: tuple[str, ...] = (), **settings: object) -> Tokenizer:
    """A small tokenizer with more control tokens and other settings."""
    base = train_tokenizer(["What is 1+1?", "1+1=2"], 400)
    base.backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in controls])
    return Tokenizer(base.backend, settings or base.settings)


def llama(**settings: object) -> ChatTemplate:
    """A template like Llama 3's."""
    marks = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|end_of_text|>")
    return ChatTemplate.for_config("tokenizer", tokenizer(marks, **({
        "bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>", "chat_template": LLAMA} | settings)))


def qwen(template: str = QWEN, reasoning: str = "") -> ChatTemplate:
    """A template like Qwen 2.5's."""
    return ChatTemplate.for_config("tokenizer", tokenizer(("<|im_start|>", "<|im_end|>", "<|endoftext|>"),
                                                          eos_token="<|im_end|>", chat_template=template), reasoning)


def parts(template: ChatTemplate, trace: Trace, reasoning: str = "channel") -> tuple[str, str]:
    """What is read and what is learned of a trace's row, control tokens visible."""
    config = DataConfig(traces="x", max_length=200, template=template.name, reasoning=reasoning)
    row = build_rows([trace], template.tokenizer, template, config).rows[0]
    assert row.loss_mask.tolist() == sorted(row.loss_mask.tolist()), "one turn is learned, the last one"
    asked = row.tokens[row.loss_mask == 0].tolist()
    assert asked == template.prompt_ids(trace.prompt, trace.history), "what generation reads"
    read, learned = (template.tokenizer.decode(row.tokens[row.loss_mask == value].tolist()) for value in (0, 1))
    return read, learned


def gpt2() -> ChatTemplate:
    """Our plain template with GPT-2's one control token."""
    return ChatTemplate.for_config("plain", tokenizer(("<|endoftext|>",), bos_token="<|endoftext|>",
                                                      eos_token="<|endoftext|>"))


def gemma() -> ChatTemplate:
    """Our template for Gemma."""
    return ChatTemplate.for_config("gemma", tokenizer())


def gemma4() -> ChatTemplate:
    """Our template for Gemma 4."""
    return ChatTemplate.for_config("gemma4", tokenizer(("<|turn>", "<turn|>"), bos_token="<bos>", eos_token="<eos>"))


CASES = {
    "gemma": (gemma, "<bos><start_of_turn>user\nWhat is 1+1?<end_of_turn>\n<start_of_turn>model\n", "<end_of_turn>",
              ["<end_of_turn>", "<eos>"]),
    "gemma4": (gemma4, "<bos><|turn>user\nWhat is 1+1?<turn|>\n<|turn>model\n", "<turn|>", ["<turn|>", "<eos>"]),
    "gpt2": (gpt2, "<|endoftext|>What is 1+1?\n", "<|endoftext|>", ["<|endoftext|>"]),
    "llama": (llama, "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nWhat is 1+1?<|eot_id|>"
                     "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>",
              ["<|eot_id|>", "<|end_of_text|>"]),
    "qwen": (qwen, "<|im_start|>system\nYou are helpful.<|im_end|>\n<|im_start|>user\nWhat is 1+1?<|im_end|>\n"
                   "<|im_start|>assistant\n", "<|im_end|>", ["<|im_end|>"]),
}
