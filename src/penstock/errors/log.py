"""Errors of publishing to feeds and reading from them."""

from typing import ClassVar

from penstock.errors.root import Case, Conflict, Invalid, NotFound, PenstockError, TooLarge


class InvalidEvent(Invalid):
    """The event type does not accept the event, or no partition does."""

    code = "invalid-event"
    message = "line {line}: {reason}"
    cases: ClassVar = {"partition-refused": Case("line {line}: {reason}")}

    line: int | None
    """Number of the event in the request, from 1."""
    index: int | None
    """Index of the event in its batch, from 0."""
    attribute: str | None
    """The attribute of a CloudEvent that is refused; None for other reasons."""
    reason: str


class MalformedEvent(InvalidEvent):
    """An event is not JSON, or is JSON that readers interpret differently."""

    code = "malformed-event"
    message = "line {line}: {reason}"


class InvalidRecord(Invalid):
    """A row of a Spark query or a line of a file is not a valid event."""

    code = "invalid-record"
    cases: ClassVar = {
        "invalid-row": Case(
            "a row is no valid event of {event_type!r}: {reason}; it begins {row}",
            "Correct the query, or set the option onInvalid=reject to store such rows among the rejected ones.",
        ),
        "invalid-line": Case(
            "{file}, line {line}: {reason}",
            "All lines before it were read. Correct the line, or begin it with # to skip it; restore the file if it is "
            "cut off. Then start again.",
        ),
    }

    event_type: str | None
    """The event type in `invalid-row`."""
    row: str | None
    """The beginning of the event, in `invalid-row`."""
    file: str | None
    """The file in `invalid-line`."""
    line: int | None
    """Number of the line, from 1, in `invalid-line`."""
    reason: str


class EventTooLarge(TooLarge):
    """An event is larger than the limit."""

    code = "event-too-large"
    message = "line {line}: the event has {size} bytes, the limit is {limit}"
    hint = "Store the large part elsewhere and publish a reference to it."

    line: int | None
    """Number of the event in the request, from 1."""
    index: int | None
    """Index of the event in its batch, from 0."""
    size: int
    """In bytes."""
    limit: int
    """In bytes."""


class PublishingRestricted(Conflict):
    """The event type does not accept events that are published in this way."""

    code = "publishing-restricted"
    message = "{event_type!r} accepts events only from the outbox and from idempotent producers"
    hint = "Publish with penstock.outbox inside your own transaction, or with an IdempotentProducer."
    cases: ClassVar = {
        "events-of-the-hub": Case(
            "{event_type!r} has events of the hub itself: nobody else publishes to it",
            "Publish to an event type of your own.",
        ),
        "undeletable-events": Case(
            "{event_type!r} is not compacted: its events cannot be deleted by key",
            "Delete by key needs the cleanup_policy compact or compact_and_delete.",
        ),
        "unknown-consumer": Case(
            "events cannot be published to a single subscription; X-CONSUMER-TAG names {subscription!r}",
            "Omit the header. POST .../parked/retry redelivers the parked events of a subscription.",
        ),
    }

    event_type: str | None
    subscription: str | None
    """The subscription in `unknown-consumer`."""


class WrongTransaction(Conflict):
    """The open transaction of the caller's connection prevents the operation, or none is open and it needs one."""

    code = "wrong-transaction"
    cases: ClassVar = {
        "inside-transaction": Case(
            "an open transaction of this process locks the database that the hub has to write to",
            "Inside your transaction, use penstock.outbox.publish(connection, ...).",
        ),
        "outside-transaction": Case(
            "no transaction is open, and the connection commits each statement at once",
            "Begin a transaction (BEGIN IMMEDIATE; connection.transaction()) and apply the effects in it.",
        ),
    }


class PartitionNotFound(NotFound):
    """The feed has no such partition."""

    code = "partition-not-found"
    message = "{event_type!r} has {partitions}, numbered from 0; there is no partition {partition}"
    hint = "GET the feed without parameters to see its partitions."

    event_type: str
    partition: int | str
    partition_count: int


class BadPartitionCount(Invalid):
    """A feed cannot be read with this `n`."""

    code = "bad-partition-count"
    message = "n={n} does not work: the feed has {partitions}"
    hint = "GET the feed without parameters to see its partitions."

    n: int
    partition_count: int
    divisors: list[int]
    """The divisors of `partition_count`."""


class BadCursor(Invalid):
    """A cursor is malformed, belongs to another feed or partition, or is past the end."""

    code = "bad-cursor"
    message = "{parameter} is not a cursor that can be used here: {reason}"
    hint = (
        "Use a cursor that this feed returned for this partition, or start at _first (all events) or _last (new ones)."
    )

    parameter: str
    value: str | None
    reason: str
    n: int | None
    partition: int | None


class StaleToken(Conflict):
    """The partitions have changed since discovery."""

    code = "stale-token"
    message = "token {given!r} is out of date"
    hint = "Discover the feed again: GET it without parameters. Your cursors stay valid."

    given: str
    """The token of the request."""
    current: str
    """The current token."""


class StaleSplit(Conflict):
    """The partition count has changed since the cursor of a slice was returned."""

    code = "stale-split"
    message = (
        "the cursor of a slice, taken at n={n} of {cursor_count} partitions, cannot be used: there are now "
        "{partition_count}"
    )
    hint = "Continue from a cursor of whole partitions if you have one, otherwise start at _first."

    n: int
    cursor_count: int
    partition_count: int


class CursorExpired(PenstockError):
    """Events after the cursor were removed, by retention or with their feed."""

    code = "cursor-expired"
    message = (
        "{parameter} points to events of {event_type!r}, partition {partition}, that are gone: {reason}; {lost} events "
        "were lost, {first_available} is the first cursor available"
    )
    hint = "Continue at first_available without the lost events, or reload your state from elsewhere."

    parameter: str
    event_type: str
    partition: int
    first_available: str
    """The first cursor that can still be read."""
    last_available: str
    lost: int | None
    """Number of events, counted by their offsets: those compacted or erased before count too. None if unknown."""
    reason: str


class EventsLost(PenstockError):
    """Events that a query or processor has yet to read are gone, or others stand in their place."""

    code = "events-lost"
    message = "{lost} events of {event_type!r}, partition {partition}, can no longer be read: {reason}"
    hint = (
        "Continue without them by the option failOnDataLoss=false of a query, or fail_on_loss=False of a source, or "
        "start with a new checkpoint."
    )
    cases: ClassVar = {
        "feed-created-again": Case(
            "{event_type!r}, partition {partition}, is another feed than this processor has read: {reason}",
            "Offsets of the old feed mean other events now. Start again: `penstock groups delete` or `penstock "
            "groups reset` moves a processor; give a projection a new version.",
        ),
        "landed-page-missing": Case(
            "the page {page}, which this query has stored, no longer exists",
            "Restore the deleted file, or mount the missing volume, or start with a new checkpoint.",
        ),
        "not-replayable": Case(
            "{source} delivers its events once: they cannot be read again",
            "Let the processor stop at an event that it cannot handle, or read from a source that stores its events.",
        ),
        "file-changed": Case(
            "{file} cannot be read on: {reason}",
            "Restore the file, or move its position to 0:0#0 to read it from the beginning. Its lines then have the "
            "indices of the old ones: if those are stored, use another version or group.",
        ),
    }

    event_type: str | None
    partition: int | None
    """None: all partitions."""
    lost: int | None
    """Number of events; None if unknown."""
    reason: str | None
    page: str | None
    """Where the page was, in `landed-page-missing`."""
    source: str | None
    """The source in `not-replayable`, which delivers its events once."""
    file: str | None
    """The file in `file-changed`, which is not the one that was read before under this name."""
