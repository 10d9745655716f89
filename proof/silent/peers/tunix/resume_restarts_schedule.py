"""Six steps in one piece, and stopped after three and resumed."""
from _tiny import say, straight_and_resumed

rates = [round(float(one._try_get_learning_rate()), 8) for one in straight_and_resumed()]
say("right" if rates[0] == rates[1] else "wrong", f"the last rate is {rates[0]} in one piece, {rates[1]} resumed")
