"""Diagnose where the time of a step goes and what bounds it, and propose a recipe."""
