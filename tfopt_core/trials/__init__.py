"""What one process does with one stack, and how it is asked for it: the dry build, the training, the
replay, loops timed in turns."""
