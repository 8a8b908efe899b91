"""The trials of an unmodified script."""
