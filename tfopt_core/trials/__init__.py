"""Trials: what one worker process does with one stack, and how the parent requests it.

They are the dry build, a run, a replay for the certificate, and loops timed in turns.
"""
