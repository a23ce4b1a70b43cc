"""A stream that was set aside, since an event of it could not be handled however often that was tried."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Parked:
    """A span that nobody handles until somebody says so: the events behind the first one wait with it, in order."""

    stream: str
    tranche: str
    index: int
    """Of the first event: the one that could not be handled."""
    next: int
    """Behind the last event that has come so far."""
    events: int
    attempts: int
    tag: str
    detail: str
    at: float
