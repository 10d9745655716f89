"""The commands in groups, as `--help` lists them."""

COMMAND_GROUPS: dict[str, tuple[str, ...]] = {
    "Start": ("quickstart", "doctor", "recipes", "data", "reward"),
    "Train": ("plan", "train", "launch", "fetch", "sample", "select", "improve", "ask"),
    "Measure": ("eval", "compare", "baseline", "gate"),
    "Prove": ("verify", "replay", "parity", "note", "key", "sign"),
    "Show": ("ui", "track", "pack", "export", "kaggle"),
}
"""Heading -> commands, in the order of a person's work."""
