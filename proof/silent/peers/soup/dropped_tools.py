"""The column `tools` in the format for calls of tools, with a template that takes it."""
from _tiny import MARKED, folder, say, texts, trainer

tool = {"type": "function", "function": {"name": "weather", "description": "of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}}}}
rows = [{"messages": [{"role": "user", "content": "Rain?"}, {"role": "assistant", "content": "No"}], "tools": [tool]}] * 2
place = folder("{% if tools %}{{ tools | tojson }}{% endif %}" + MARKED)
try:
    read, _ = texts(trainer(rows, place, format="tool-calling"))
    say("right" if "weather" in read else "wrong", f"the prompt is {read!r}")
except (ValueError, RuntimeError) as error:
    say("refused", " ".join(str(error).split())[:150])
