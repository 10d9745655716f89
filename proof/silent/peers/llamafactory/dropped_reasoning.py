"""Thoughts in both answers of a conversation, with each registered template that knows thoughts."""
from _tiny import by_template, say
from llamafactory.data.template import ReasoningTemplate


def turns(template):
    first, last = template.thought_words
    return [("user", "1+1?"), ("assistant", f"{first}STEP{last}two"), ("user", "2+2?"), ("assistant", f"{first}LEAP{last}four")]


found = {name: (learned.count("STEP"), learned.count("LEAP")) for name, _, learned in by_template(turns, kind=ReasoningTemplate)}
drops = [name for name, counts in found.items() if counts != (1, 1)]
say("wrong" if drops else "right", f"of {len(found)} templates leave thoughts out: {', '.join(drops) or 'none'}")
