"""Templates with Gemma 4's thinking on a small tokenizer.

`SMALL` and `LARGE` are short templates of our own that write the turns which Gemma 4's templates of 2026-07-09 write:
those of E2B and E4B, and those of the larger models, whose prompt has an empty channel where thinking is off.
"""

from tests.models.chat_templates import tokenizer
from workings.data.traces import Trace
from workings.models.chat import ChatTemplate

MARKS = ("<|turn>", "<turn|>", "<|think|>", "<|channel>", "<channel|>")
SMALL = """{%- set enable_thinking = enable_thinking | default(false) -%}{{- bos_token -}}
{%- macro said(text) -%}{%- for part in text.split('<channel|>') -%}{{- part.split('<|channel>')[0] -}}{%- endfor -%}
{%- endmacro -%}
{%- set rest = messages -%}{%- set system = messages[0].role == 'system' -%}
{%- if enable_thinking or system -%}{{- '<|turn>system\\n' + ('<|think|>\\n' if enable_thinking else '') -}}
{%- if system -%}{{- messages[0].content | trim -}}{%- set rest = messages[1:] -%}{%- endif -%}{{- '<turn|>\\n' -}}
{%- endif -%}
{%- for message in rest -%}{%- if message.role == 'assistant' -%}
{{- '<|turn>model\\n' + (said(message.content) | trim) + '<turn|>\\n' -}}{%- else -%}
{{- '<|turn>' + message.role + '\\n' + (message.content | trim) + '<turn|>\\n' -}}{%- endif -%}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|turn>model\\n' -}}{%- endif -%}"""
LARGE = SMALL.replace("{{- '<|turn>model\\n' -}}", "{{- '<|turn>model\\n' + ('' if enable_thinking else "
                                                   "'<|channel>thought\\n<channel|>') -}}")
TRACE = Trace(id="one", prompt=" What is 1+1? ", steps=("1+1=2", "so it is 2"), answer="2")
CASES = {"gemma4": ("gemma4", SMALL), "small": ("tokenizer", SMALL), "large": ("tokenizer", LARGE)}


def gemma4(case: str = "gemma4", reasoning: str = "channel", marks: tuple[str, ...] = MARKS) -> ChatTemplate:
    """One of Gemma 4's templates on a small tokenizer with its marks."""
    name, source = CASES[case]
    return ChatTemplate.for_config(name, tokenizer(marks, bos_token="<bos>", eos_token="<eos>", chat_template=source),
                                   reasoning)
