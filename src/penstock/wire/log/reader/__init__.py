"""The reader's side of ZeroEventHub and FeedAPI: discovery, pages, and partitions that split and close. No I/O."""
