"""The PyTorch engine: models by transformers, adapters by peft; the step, attention, loss and updates are ours."""

import logging

# bitsandbytes, which peft imports, warns if a package with other CPU kernels is absent.
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
