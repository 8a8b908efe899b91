"""Results and where they are kept."""
