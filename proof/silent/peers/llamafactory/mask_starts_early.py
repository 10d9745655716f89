"""The first learned token with each registered template; where the template knows thoughts, the answer has them."""
from _tiny import by_template, say
from llamafactory.data.template import TEMPLATES, ReasoningTemplate


def answer(template):
    thoughts = isinstance(template, ReasoningTemplate)
    return f"{template.thought_words[0]}STEP{template.thought_words[1]}two" if thoughts else "two"


early = [f"{name} {learned!r}" for name, _, learned in by_template(lambda one: [("user", "1+1?"), ("assistant", answer(one))])
         if not learned.lstrip().startswith(answer(TEMPLATES[name]).lstrip())]
say("wrong" if early else "right", f"templates that learn something before the answer: {', '.join(early) or 'none'}")
