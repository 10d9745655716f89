"""The token after the answer with each registered template."""
from _tiny import by_template, say

answers = by_template(lambda template: [("user", "1+1?"), ("assistant", "two")])
endless = [name for name, _, learned in answers
           if learned.endswith("two") and name != "empty"]  # `empty` writes nothing by definition
say("wrong" if endless else "right", f"templates whose rows end with the answer: {', '.join(endless) or 'none'}")
