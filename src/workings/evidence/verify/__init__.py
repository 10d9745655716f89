"""Verification: checks by level, each with a stable id; needs no ML library and runs nothing of what it verifies."""

from workings.evidence.verify.core import DEFAULT_LEVEL, HIGHEST_LEVEL, verify
from workings.evidence.verify.result import Check, CheckVerdict, Verification

__all__ = ["DEFAULT_LEVEL", "HIGHEST_LEVEL", "Check", "CheckVerdict", "Verification", "verify"]
