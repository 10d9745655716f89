"""Six steps in one piece, and stopped after three and resumed."""
import torch
from _tiny import say, straight_and_resumed

pairs = zip(*(trainer.model.parameters() for trainer in straight_and_resumed()), strict=True)
same = all(torch.equal(a, b) for a, b in pairs)
say("right" if same else "wrong", f"weights are equal to the bit after the resumed steps: {same}")
