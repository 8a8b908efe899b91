"""Loops that a script writes itself: their updates, their data, and what plugins do to them."""
