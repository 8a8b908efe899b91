"""From the timed steps of one run to its figures: steady state, cut runs and their projection."""
