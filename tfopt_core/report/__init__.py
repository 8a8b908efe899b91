"""Render results for the console (with rich), as HTML, Markdown and JSON. Nothing here prints."""
