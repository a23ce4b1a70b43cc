"""Routes of the log: publish, feeds, Nakadi's low-level interface."""
