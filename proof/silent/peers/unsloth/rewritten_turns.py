"""Thoughts in both answers, all of them learned, with Unsloth's template `qwen3`, which drops earlier thoughts."""
from _tiny import MARKS, get_chat_template, learned, say, tokenizer, turns

talk = turns("1+1?", "<think>\none and one\n</think>\n\nFIRST", "2+2?", "<think>\ntwo and two\n</think>\n\nLAST")
text = learned(get_chat_template(tokenizer(), "qwen3", map_eos_token=False), talk, **MARKS)
right = "FIRST<|im_end|>" in text and "LAST<|im_end|>" in text and "2+2?" not in text
say("right" if right else "wrong", f"learned is {text!r}")
