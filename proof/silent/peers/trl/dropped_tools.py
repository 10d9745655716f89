"""The column `tools` with a template that takes it."""
from _tiny import CHATML, say, sft, tokenizer

tool = {"type": "function", "function": {"name": "weather", "description": "of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}}}}
tokens = tokenizer("{% if tools %}{{ tools | tojson }}{% endif %}" + CHATML)
trainer = sft([{"messages": [{"role": "user", "content": "Rain?"}, {"role": "assistant", "content": "No"}],
                "tools": [tool]}], tokens=tokens)
text = tokens.decode(trainer.train_dataset[0]["input_ids"])
say("right" if "weather" in text else "wrong", f"the prompt names the tool: {'weather' in text}")
