"""Forms of conversations against renderings, and templates that must not have a form."""

from importlib.resources import files
from itertools import product

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tests.models.chat_templates import LLAMA, QWEN, QWEN3, QWEN3_5
from tests.models.thinking_templates import SMALL
from workings.models.conversation_form import ConversationForms

TEXTS = (" a \n", "", "<think>\nx\n</think>\n\ny", "{{ bos_token }}", "<b>&", "\u00a0z\u2003")
NAMES = {"bos_token": "<bos>", "eos_token": "<eos>", "tools": None}
ENVIRONMENT = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
CHATML = QWEN.replace("{% generation %}", "").replace("{% endgeneration %}", "")
COPYING = {name: files("workings.models").joinpath(f"templates/{name}.jinja").read_text("utf-8")
           for name in ("gemma", "plain")} | {"llama": LLAMA, "qwen": CHATML}
USER, SAID, ALL = ("user",), ("user", "assistant"), ("system", "user", "assistant")


@pytest.mark.parametrize("roles", [USER, SAID, ALL])
@pytest.mark.parametrize("name", COPYING)
def test_a_filled_form_is_what_the_template_writes(name: str, roles: tuple[str, ...]) -> None:
    forms, template = ConversationForms(ENVIRONMENT, COPYING[name], NAMES), ENVIRONMENT.from_string(COPYING[name])
    for asks in (True, False):
        form = forms.find(roles, asks)
        assert form is not None
        for texts in product(TEXTS, repeat=len(roles)):
            messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
            assert form.filled(texts) == template.render(messages=messages, add_generation_prompt=asks, **NAMES)


@pytest.mark.parametrize("looks", [
    "{% if message.content %}x{% endif %}", "{% if '</think>' in message.content %}x{% endif %}",
    "{% if message.content in 'abc' %}x{% endif %}", "{% if message.content in ['a', 'b'] %}x{% endif %}",
    "{% if message.content == 'a' %}x{% endif %}", "{% if 'a' != message.content %}x{% endif %}",
    "{% if message.content > 'a' %}x{% endif %}", "{% if message.content is iterable %}x{% endif %}",
    "{% if message.content is sequence %}x{% endif %}", "{% if message.content is lower %}x{% endif %}",
    "{% if message == {'role': 'user', 'content': 'a'} %}x{% endif %}", "{{ {'a': 1}[message.content] }}",
    "{{ message.content | length }}", "{{ message.content | upper }}", "{{ message.content | int }}",
    "{{ message.content | float }}", "{{ message.content | default('x', true) }}", "{{ message.content | tojson }}",
    "{{ message.content | e }}", "{{ message.content | replace('a', 'b') }}",
    "{{ 'a' | replace('a', message.content) }}", "{{ message.content[:3] }}",
    "{{ message.content[0] }}", "{{ message.content.split('a')[0] }}",
    "{{ message.content.startswith('a') }}", "{{ message.content.strip('a') }}", "{{ 'ab'.find(message.content) }}",
    "{{ (message.content + 'x') | trim }}", "{{ message.content ~ 'x' }}", "{{ '%s' % message.content }}",
    "{{ '%s' | format(message.content) }}", "{{ '{}'.format(message.content) }}", "{{ message.content * 2 }}",
    "{{ 1 + message.content }}", "{{ message | string | length }}", "{{ message }}", "{{ messages | tojson }}",
    "{{ messages | map(attribute='content') | join }}", "{% for letter in message.content %}x{% endfor %}",
    "{% set x %}{{ message.content }}{% endset %}{{ x | length }}",
    "{% macro x() %}{{ message.content }}{% endmacro %}{{ x() | length }}",
    "{% filter upper %}{{ message.content }}{% endfilter %}",
    "{% autoescape true %}{{ message.content }}{% endautoescape %}",
    "{% block x %}{{ messages[0].content }}{% endblock %}{{ self.x() | length }}",
    "{% for x in [[1]] recursive %}{{ messages[0].content }}{{ loop(x) | trim if x is iterable }}{% endfor %}",
])
def test_a_template_that_looks_into_a_text_has_no_form(looks: str) -> None:
    source = "{% for message in messages %}" + looks + "{% endfor %}"
    assert ConversationForms(ENVIRONMENT, source, NAMES).find(USER, True) is None


def test_a_template_may_look_into_the_texts_of_some_roles_only() -> None:
    for source in (QWEN3, QWEN3_5):
        forms = ConversationForms(ENVIRONMENT, source, NAMES)
        assert forms.find(USER, True) is not None
        assert forms.find(SAID, False) is None
    assert ConversationForms(ENVIRONMENT, SMALL, NAMES).find(USER, True) is None


def test_a_conversation_that_a_template_refuses_has_no_form() -> None:
    assert ConversationForms(ENVIRONMENT, COPYING["gemma"], NAMES).find(("assistant", "user"), True) is None
