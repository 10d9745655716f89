"""Run directories and comparisons as pages and figures, from recorded values only."""
