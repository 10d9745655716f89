"""The column `tools` with each registered template."""
import json

from _tiny import by_template, say

tool = json.dumps([{"name": "weather", "description": "of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}}}])
drops = [name for name, read, _ in by_template(lambda template: [("user", "Rain?"), ("assistant", "No")], tools=tool)
         if "weather" not in read]
say("wrong" if drops else "right", f"templates that leave the tools out: {', '.join(drops) or 'none'}")
