"""Carry out the tasks of an unmodified script, each in a worker process of its own."""
