"""Training data and replays of the ways of learning."""
