"""Events: their rules, and how they are encoded, decoded and partitioned."""
