"""Trainings that hypothesis draws, made by plain Keras and under stacks, and compared.

A case (`case.py`) is data that stand for a script. `model_strategies.py`, `data_strategies.py` and
`strategies.py` draw cases, `stacks.py` draws plugins for them. The scripts take their models, data
and callbacks from the modules of these names. `training.py` runs a script in a forked process, in
which `notes.py` notes what comes of it; `judging.py` compares the notes of two runs.
"""
