"""Files for the launchers that people's clusters have: what is to be started, written down, and nothing started."""
