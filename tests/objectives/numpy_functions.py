"""NumPy for objectives."""

import numpy as np

from workings.objectives.base import ArrayFunctions

NUMPY = ArrayFunctions(exp=np.exp, expm1=np.expm1, log=np.log, minimum=np.minimum, clip=np.clip,
                       log_sigmoid=lambda x: -np.logaddexp(0, -x), stop_gradient=np.asarray,
                       stack=lambda arrays: np.stack(arrays, -1))
