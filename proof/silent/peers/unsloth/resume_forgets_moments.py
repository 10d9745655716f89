"""Six steps in one piece, and resumed after three: the adapters are equal."""
from _tiny import say, straight_and_resumed

pairs = zip(*(one.model.parameters() for one in straight_and_resumed()), strict=True)
apart = max((a - b).abs().max().item() for a, b in pairs)
say("right" if apart < 1e-6 else "wrong", f"weights differ by at most {apart:.1e} after six steps")
