"""The loads of the peers, each in a process of its own; those of other systems run with the clients in build/peers."""
