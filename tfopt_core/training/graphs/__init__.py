"""The graph of a traced step: its operations, their FLOPs, and findings about its cost."""
