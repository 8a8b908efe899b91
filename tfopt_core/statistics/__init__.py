"""Runs, results, and the pure arithmetic on them: intervals, projections, verdicts.

No process, no file, no TensorFlow.
"""
