"""One measurement from the dry build to its results: rounds, budget, resuming, and the selftest.

The arithmetic is in `statistics`.
"""
