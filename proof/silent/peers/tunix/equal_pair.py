"""DPO with a pair whose chosen and rejected answer are the same."""
from _preferences import dpo
from _tiny import apart, logged, model, say

try:
    made = dpo([8, 9, 10], [8, 9, 10])
    say("wrong", f"trained to its end, loss {logged(made, 'loss')[0]:.4f}, weights moved by {apart(made, model()):.1e}")
except (ValueError, RuntimeError) as error:
    say("refused", " ".join(str(error).split())[:150])
