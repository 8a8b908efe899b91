"""Compute a run's figures from its timed steps: steady state, cut runs and their projection."""
