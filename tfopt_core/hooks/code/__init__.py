"""Plain Python code for the changes of plugins, as `tfopt export` writes it."""
