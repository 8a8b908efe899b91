"""Trainings that hypothesis draws, made by plain Keras and under stacks, and compared.

A case is rendered as a script (`case.py`), put together from the pieces in `strategies.py`,
`parts.py`, `models.py` and `callbacks.py`. `training.py` runs the script in a forked process,
`comparison.py` compares what two runs noted, and `judging.py` concludes from it.
"""
