"""Run directories and comparisons as pages and figures. Nothing is measured here: everything is read."""
