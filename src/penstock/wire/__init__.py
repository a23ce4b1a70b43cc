"""The HTTP contracts, used by server and client alike; no I/O."""
