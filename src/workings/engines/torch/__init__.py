"""The PyTorch engine: models by transformers, adapters by peft; the step, attention, loss and updates are ours."""

import logging

# When it is imported (by peft), bitsandbytes looks for a package with faster CPU kernels and warns where it is absent.
# The kernels that it brings are the ones used here.
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
