"""What was measured, made readable: console (rich) and JSON. Nothing here prints itself."""
