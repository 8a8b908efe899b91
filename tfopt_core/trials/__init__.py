"""What one process does with one stack, and how it is asked for it.

The dry build, the training, the replay of a certificate, loops timed in turns.
"""
