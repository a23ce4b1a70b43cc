"""Retention: how long, and up to which size, the events of an event type are kept."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class RetentionLimits(NamedTuple):
    """Limits beyond which the oldest events are deleted; None: there is no such limit."""

    time_ms: int | None = None
    """Age of an event, in milliseconds since it was received."""
    size: int | None = None
    """Bytes of data of all events of the event type, in all its partitions."""

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> "RetentionLimits":
        """Return the limits that the members `retention_time` and `retention_bytes` set."""
        return cls(given.get("retention_time"), given.get("retention_bytes"))

    def or_else(self, default: "RetentionLimits") -> "RetentionLimits":
        """Return these limits, each that is missing from *default*."""
        return RetentionLimits(
            *(mine if mine is not None else other for mine, other in zip(self, default, strict=True))
        )


class Retention(NamedTuple):
    """The retention of an event type."""

    limits: RetentionLimits = RetentionLimits()
    groups: tuple[str, ...] = ()
    """Consumer groups whose uncommitted events are kept longer."""
    waiting: RetentionLimits = RetentionLimits()
    """The limits of events that one of *groups* has not committed."""

    @property
    def is_endless(self) -> bool:
        """True if no event is ever deleted."""
        return self.limits == RetentionLimits()


def read_retention(options: Mapping[str, Any], cleanup_policy: str, default: RetentionLimits) -> Retention:
    """Return the retention that the checked *options* of an event type and the hub's *default* set.

    The cleanup policy `compact` keeps events without limits, but the newest of each key alone.

    >>> read_retention({"retention_bytes": 9}, "delete", RetentionLimits(time_ms=1000)).limits
    RetentionLimits(time_ms=1000, size=9)
    >>> read_retention({}, "compact", RetentionLimits(time_ms=1000)).is_endless
    True
    """
    if cleanup_policy == "compact":
        return Retention()
    limits = RetentionLimits.parse(options).or_else(default)
    wait = options.get("retention_wait")
    if wait is None:
        return Retention(limits)
    return Retention(limits, tuple(wait["groups"]), RetentionLimits.parse(wait))
