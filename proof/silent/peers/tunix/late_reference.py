"""DPO: margins of rewards in the first update, and in the last."""
from _preferences import dpo
from _tiny import logged, say

margins = [round(x, 4) for x in logged(dpo([8, 9, 10], [11, 12, 13], count=4, rate=0.1), "rewards/margin")]
say("right" if abs(margins[0]) < 1e-5 < margins[-1] else "wrong", f"margins {margins} in four updates")
