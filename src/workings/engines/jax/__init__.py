"""The JAX engine. Importing it opens nothing; `engine.py` does."""

import os

from workings.engines.gpu_settings import settle

# An installed CUDA plugin tells every CPU host, at level "info", that there is no driver.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
settle()
