"""Events in PostgreSQL."""
