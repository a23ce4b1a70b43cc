"""What drives the engine: they read, call handlers and commit, and differ in nothing else."""
