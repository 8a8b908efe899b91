"""The same for an unmodified script."""
