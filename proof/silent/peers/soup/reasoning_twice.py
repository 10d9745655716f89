"""The reasoning in the field `reasoning_content` and in the content, with a template that writes both as Qwen 3's does."""
from _tiny import MARKED, folder, say, texts, trainer

place = folder(MARKED.replace("m.content + '<|im_end|>' }}{% endgen", "('<think>\n' + m.reasoning_content + '\n</think>\n\n' if "
                              "m.reasoning_content else '') + m.content + '<|im_end|>' }}{% endgen"))
row = {"messages": [{"role": "user", "content": "7+5?"}, {
    "role": "assistant", "content": "<think>\nSTEP\n</think>\n\n12", "reasoning_content": "STEP"}]}
try:
    _, learned = texts(trainer([row] * 2, place))
    say("right" if learned.count("STEP") == 1 else "wrong", f"learned is {learned!r}")
except (ValueError, RuntimeError) as error:
    say("refused", " ".join(str(error).split())[:150])
