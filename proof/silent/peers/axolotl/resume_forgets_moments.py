"""Six steps in one piece, and resumed after three: the weights are equal."""
import torch
from _tiny import say, straight_and_resumed

pairs = zip(*(one.model.parameters() for one in straight_and_resumed()), strict=True)
same = all(torch.equal(one, other) for one, other in pairs)
say("right" if same else "wrong", f"weights are equal to the bit after the resumed steps: {same}")
