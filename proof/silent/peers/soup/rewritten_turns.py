"""A template that drops the thoughts of earlier answers, as Qwen 3's does."""
from _tiny import CHATML, folder, say, texts, trainer

drops = CHATML.replace("m.content", "(m.content if loop.last else m.content.split('</think>')[-1])")
answers = ["<think>one and one</think>FIRST", "<think>two and two</think>LAST"]
rows = [{"messages": [{"role": role, "content": text} for pair in zip(("1+1?", "2+2?"), answers)
                      for role, text in zip(("user", "assistant"), pair)]}]
try:
    _, learned = texts(trainer(rows * 2, folder(drops)))
    say("right" if "FIRST<|im_end|>" in learned and "2+2?" not in learned else "wrong", f"learned is {learned!r}")
except (ValueError, RuntimeError) as error:
    say("refused", " ".join(str(error).split())[:150])
