"""Sets apart what is no valid event, where that is wanted; else the first one refuses all that it came with."""

from collections.abc import Sequence

import msgspec

from penstock.core.registry.event_type import Feed
from penstock.errors import Invalid, NotFound, PenstockError, TooLarge
from penstock.hub.publish import Handed, prepare

_WRONG = (Invalid, TooLarge, NotFound)


class Reject(msgspec.Struct, frozen=True):
    """A line that is no valid event."""

    line: int
    reason: str
    data: str
    key: str | None = None
    headers: dict[str, str] | None = None
    partition: int | None = None


def sift(feed: Feed, handed: Handed, now: int) -> tuple[Handed, Sequence[Reject]]:
    """Return those events that are valid, and the others; looked at one by one only where there is one of these."""
    try:
        prepare(feed, handed, now)
    except _WRONG:
        pass
    else:
        return handed, ()
    numbers = handed.lines or range(1, len(handed.events) + 1)
    valid, rejected = [], []
    for number, event in zip(numbers, handed.events, strict=True):
        try:
            prepare(feed, handed._replace(events=[event], lines=[number]), now)
        except _WRONG as error:
            text = bytes(event.data).decode(errors="backslashreplace")
            rejected.append(Reject(number, _reason(error), text, event.key, event.headers, event.partition))
        else:
            valid.append((number, event))
    return handed._replace(events=[event for _, event in valid], lines=[number for number, _ in valid]), rejected


def _reason(error: PenstockError) -> str:
    reason: str = error.fields.get("reason") or error.detail
    return reason
