"""Ways of learning: sections of a recipe, and in `parts` the training data and replays that follow from them."""
