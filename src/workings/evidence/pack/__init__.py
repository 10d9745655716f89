"""Packs: everything that someone else needs to check runs, in one zip that is a sealed unit itself."""
