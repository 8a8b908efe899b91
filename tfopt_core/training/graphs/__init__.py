"""The graph of a traced step: its operations, and findings about its cost."""
