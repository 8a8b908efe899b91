"""Pure arithmetic on records: intervals, projections, verdicts.

No process, no file, no TensorFlow.
"""
