"""Trials: what one worker process does with one stack, and how the parent requests it.

The dry build, the training, the replay of a certificate, loops timed in turns.
"""
