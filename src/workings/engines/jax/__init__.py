"""The JAX engine. Importing it sets variables that JAX reads when it is imported; only `engine.py` opens devices."""

import os

from workings.engines.gpu_settings import settle

# An installed CUDA plugin tells every CPU host, at level "info", that there is no driver.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
settle()
