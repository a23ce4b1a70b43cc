"""Events in SQLite."""
