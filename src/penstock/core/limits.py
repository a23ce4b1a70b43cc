"""What an event type may ask for: Penstock's own limits, and Nakadi's for clients that count on them."""

from typing import Final

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How far a hub goes along with what is asked of it; chosen once, when it starts."""

    partitions_max: int
    """How many partitions an event type may have."""
    retention_ms: tuple[int | None, int | None]
    """The shortest and the longest retention of an event type, in milliseconds; None: any."""
    retention_default_ms: int | None
    """The retention of an event type that asks for none, in milliseconds; None: events are kept for ever."""
    subscription_partitions_max: int
    """How many partitions a subscription may have, over all its event types."""
    commit_s_max: int
    """How many seconds a stream may have at most to commit what it was sent."""
    stream_bytes_max: int
    """How many bytes a stream may hold of events that are not sent yet."""
    strict: bool
    """Whether to do as Nakadi does where Penstock would say or allow more."""
    refuses_by_guidelines: bool = False
    """Whether event types that break a guideline of the level MUST, and do not waive it, are refused."""


PENSTOCK: Final = Limits(
    partitions_max=256,
    retention_ms=(None, None),
    retention_default_ms=None,
    subscription_partitions_max=1_000,
    commit_s_max=3_600,
    stream_bytes_max=50_000_000,
    strict=False,
)
"""The limits of a hub that nobody has told otherwise."""

NAKADI: Final = Limits(
    partitions_max=8,
    retention_ms=(10_800_000, 345_600_000),
    retention_default_ms=172_800_000,
    subscription_partitions_max=100,
    commit_s_max=60,
    stream_bytes_max=50_000_000,
    strict=True,
)
"""Nakadi's limits, as it has them by default: retention of 3 hours to 4 days, 2 days unless told (its digest, 0.1)."""


def limits_of(*, nakadi_strict: bool, refuses_by_guidelines: bool, stream_bytes_max: int = 50_000_000) -> Limits:
    """Return the limits of a hub that is told this.

    >>> limits_of(nakadi_strict=True, refuses_by_guidelines=False).partitions_max
    8
    """
    return msgspec.structs.replace(
        NAKADI if nakadi_strict else PENSTOCK,
        refuses_by_guidelines=refuses_by_guidelines,
        stream_bytes_max=stream_bytes_max,
    )
