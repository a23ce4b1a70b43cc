"""The command line: composition roots, and the only reader of the environment."""
