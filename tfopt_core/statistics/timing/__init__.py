"""Compute a run's figures from its timed steps: cut runs and their projection."""
