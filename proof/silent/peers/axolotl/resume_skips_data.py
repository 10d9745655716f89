"""Six steps in one piece, and resumed after three."""
from _tiny import logged, say, straight_and_resumed

losses = [logged(one, "loss")[-3:] for one in straight_and_resumed()]
say("right" if losses[0] == losses[1] else "wrong", f"losses {losses[0]} in one piece, {losses[1]} resumed")
