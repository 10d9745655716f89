"""A hard and an easy prompt in one batch: the advantages of each prompt's group sum to 0."""
import numpy as np
from _tiny import say
from tunix.rl.algo_core import compute_advantages

found = compute_advantages(np.array([0, 0, 1, 0, 10, 11, 10, 10], np.float32), 4)
first, second = ([float(x) for x in part] for part in np.asarray(found).reshape(2, 4))
same = abs(first[2] - second[1]) < 1e-3 and abs(sum(first)) < 1e-3
say("right" if same else "wrong", f"the best of either group has {first[2]:.4f} and {second[1]:.4f}; a group sums to {sum(first):.0e}")
