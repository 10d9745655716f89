"""What another package's engine looks like: installed with an entry point of its own that names its class."""

from workings.testing import UnigramEngine as UnigramEngine
