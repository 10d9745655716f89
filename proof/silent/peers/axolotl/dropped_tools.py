"""The column `tools` with a template that takes it."""
from _tiny import CHATML, SUM, encoded, folder, say, texts

tool = {"type": "function", "function": {"name": "weather", "description": "of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}}}}
tokens, rows = encoded([{**SUM[0], "tools": [tool]}] * 2, folder("{% if tools %}{{ tools | tojson }}{% endif %}" + CHATML),
                       {"field_tools": "tools"})
read, _ = texts(tokens, rows[0])
say("right" if "weather" in read else "wrong", f"the prompt names the tool: {'weather' in read}")
