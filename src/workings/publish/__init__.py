"""Artefacts of finished runs for other people: packs, exported models, Kaggle notebooks."""
