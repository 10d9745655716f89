"""Six steps in one piece, and resumed after three."""
from _tiny import logged, say, straight_and_resumed

rates = [[round(x, 9) for x in logged(one, "learning_rate")[-3:]] for one in straight_and_resumed()]
say("right" if rates[0] == rates[1] else "wrong", f"rates {rates[0]} in one piece, {rates[1]} resumed")
