"""A consumer group, as a hub lists it."""

import msgspec


class ConsumerGroup(msgspec.Struct, frozen=True):
    """A name under which somebody's positions are kept."""

    name: str
    kind: str
    """What sort of consumer it is, such as a cursor set or a subscription."""
    event_types: list[str]
    """Those that it reads."""
