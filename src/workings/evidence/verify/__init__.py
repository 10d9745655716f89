"""Verification: checks by level, each with a stable id; needs no ML library and runs nothing of what it verifies."""

from workings.evidence.verify.result import Check, CheckVerdict, Verification
from workings.evidence.verify.run_checks import DEFAULT_LEVEL, HIGHEST_LEVEL, verify

__all__ = ["DEFAULT_LEVEL", "HIGHEST_LEVEL", "Check", "CheckVerdict", "Verification", "verify"]
