"""Scoring as version 1 did it, so that records of that version are scored again by their own rules."""
