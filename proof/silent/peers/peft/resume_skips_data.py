"""Six steps in one piece, and stopped after three and resumed."""
from _tiny import logged, say, straight_and_resumed

losses = [[round(x, 5) for x in logged(one, "loss")] for one in straight_and_resumed()]
say("right" if losses[0] == losses[1] else "wrong", f"losses {losses[0][3:]} in one piece, {losses[1][3:]} resumed")
