"""Make one measurement, from the dry build to its results: rounds, budget, resuming, selftest.

The arithmetic is in `statistics`.
"""
