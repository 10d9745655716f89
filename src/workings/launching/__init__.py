"""Launching: files with which Slurm, Kubernetes or SkyPilot start a run. Nothing is started here."""
