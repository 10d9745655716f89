"""What another package's engine looks like: installed with its own entry point that names its class."""

from workings.testing import UnigramEngine as UnigramEngine
