"""The reader's side of ZeroEventHub and FeedAPI: discovery, pages, partitions that come and go; no I/O."""
