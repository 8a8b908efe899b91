"""What a traced step holds: its operations, their FLOPs, and what in it costs time."""
