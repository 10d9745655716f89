"""Everything that only a real accelerator can answer, in one command: ``python -m proof.chip``."""
