"""Six steps in one piece, and stopped after three and resumed."""
from _tiny import apart, say, straight_and_resumed

differ = apart(*straight_and_resumed())
say("right" if differ == 0 else "wrong", f"weights differ by {differ:.2g} after the resumed steps")
