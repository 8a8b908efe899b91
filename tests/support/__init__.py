"""What the tests share. `pythonpath` in pyproject.toml puts `tests` on the path."""
