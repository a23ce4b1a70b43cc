"""The HTTP contracts, shared by server and client. No I/O."""
