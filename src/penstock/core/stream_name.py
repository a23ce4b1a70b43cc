"""What a stream is called: the events of one feed that share a key, which is the unit of order."""


def stream_name(event_type: str, partition: int, key: str | None, *, is_hashed: bool) -> str:
    """Return the name of the stream that an event belongs to: `{event type}-{key}`.

    The partition is part of it unless the event type *is_hashed*: only then does a key always fall in the same one.
    Events without a key form one stream in each partition.

    >>> stream_name("order.placed", 3, "7", is_hashed=True)
    'order.placed-7'
    >>> stream_name("order.placed", 3, "7", is_hashed=False), stream_name("order.placed", 3, None, is_hashed=True)
    ('order.placed-3_7', 'order.placed-3_')
    """
    if is_hashed and key is not None:
        return f"{event_type}-{key}"
    return f"{event_type}-{partition}_{key or ''}"
