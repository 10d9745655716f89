"""Six steps in one piece, and resumed after three: the weights are equal."""
import torch
from _tiny import say, straight_and_resumed, weights

one, other = (weights(place) for _, place in straight_and_resumed())
same = all(torch.equal(values, other[name]) for name, values in one.items())
say("right" if same else "wrong", f"weights are equal to the bit after the resumed steps: {same}")
