"""Runners drive the engine: they read, call handlers and commit. They differ only in that."""
