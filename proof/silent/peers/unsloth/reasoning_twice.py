"""The reasoning in the field `reasoning_content` and in the content, with each of Unsloth's templates that reads it."""
from _tiny import by_template, say

talk = [{"role": "user", "content": "7+5?"}, {"role": "assistant", "content": "<think>\nSTEP\n</think>\n\n12",
                                              "reasoning_content": "STEP"}]
counts = {name: tokens.apply_chat_template(talk, tokenize=False).count("STEP") for name, tokens in by_template()
          if "reasoning_content" in tokens.chat_template}
wrong = [f"{name} ({count} times)" for name, count in counts.items() if count != 1]
say("wrong" if wrong else "right", f"of {len(counts)} templates do not write it once: {', '.join(wrong) or 'none'}")
