"""The strategy of a run: its kind, its addresses, and joining the other processes early."""
