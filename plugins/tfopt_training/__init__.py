"""Plugins for the training algorithm: learning-rate schedules, stopping at a target."""
