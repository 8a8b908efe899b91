"""Render results for the console (with rich) and as JSON. Nothing in this package prints."""
