"""The HTTP contracts of the log: ZeroEventHub, FeedAPI, Nakadi's low-level interface, and Arrow."""
