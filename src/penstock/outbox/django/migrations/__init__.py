"""The outbox's schema as Django migrations."""
