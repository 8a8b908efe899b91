"""Pure arithmetic on records: intervals, steady state, projections, verdicts.

No process, no file, no TensorFlow.
"""
