"""Attestation: who vouches for a record. Statements over root digests, signed with a user's key."""
