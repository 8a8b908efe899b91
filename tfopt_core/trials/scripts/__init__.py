"""Carry out the tasks of an unmodified script."""
