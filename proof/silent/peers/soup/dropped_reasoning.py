"""`reasoning_content` of the answer that is learned, with a template that writes it."""
from _tiny import MARKED, folder, say, texts, trainer

place = folder(MARKED.replace("m.content + '<|im_end|>' }}{% endgen", "'<think>' + m.reasoning_content + '</think>' + m.content + "
                              "'<|im_end|>' }}{% endgen"))
row = {"messages": [{"role": "user", "content": "1+1?"},
                    {"role": "assistant", "content": "TWO", "reasoning_content": "STEP"}]}
try:
    _, learned = texts(trainer([row] * 2, place))
    say("right" if "STEP" in learned and "TWO" in learned else "wrong", f"learned is {learned!r}")
except Exception as error:  # noqa: BLE001 - of Soup or of the template
    say("refused", f"{type(error).__name__}: {' '.join(str(error).split())[:130]}")
