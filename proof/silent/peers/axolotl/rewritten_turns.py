"""A template that drops the thoughts of earlier answers, as Qwen 3's does, with both answers learned."""
from _tiny import CHATML, encoded, folder, say, texts

drops = CHATML.replace("m.content", "(m.content if loop.last else m.content.split('</think>')[-1])")
answers = ["<think>one and one</think>FIRST", "<think>two and two</think>LAST"]
rows = [{"messages": [{"role": role, "content": text} for pair in zip(("1+1?", "2+2?"), answers)
                      for role, text in zip(("user", "assistant"), pair)]}] * 2
try:
    tokens, made = encoded(rows, folder(drops))
    _, learned = texts(tokens, made[0])
    say("right" if learned.startswith("FIRST") and "2+2?" not in learned else "wrong", f"learned is {learned!r}")
except (ValueError, RuntimeError) as error:
    say("refused", " ".join(str(error).split())[:150])
