"""Store measurements and runs in SQLite."""
