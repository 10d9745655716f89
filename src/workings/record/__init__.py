"""The run directory: paths, atomic writes, append-only lines, the manifest, checkpoints, sealing and reading."""
