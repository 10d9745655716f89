"""Packs: everything that others need to verify runs, in one zip that is a sealed unit."""
