"""Packs: everything that somebody else needs to check runs, in one zip that is a sealed unit itself."""
