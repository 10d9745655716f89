"""A system turn with each registered template."""
from _tiny import by_template, say

drops = [name for name, read, _ in by_template(lambda template: [("user", "Hi"), ("assistant", "Ahoy")], "Talk like a pirate.")
         if "pirate" not in read]
say("wrong" if drops else "right", f"templates that leave the system turn out: {', '.join(drops) or 'none'}")
