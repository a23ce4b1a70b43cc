"""Events: what they are, how they are encoded, decoded and partitioned."""
