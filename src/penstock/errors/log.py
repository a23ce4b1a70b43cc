"""Errors of publishing to feeds and reading from them."""

from penstock.errors.root import Conflict, Invalid, NotFound, PenstockError, TooLarge, Unavailable


class InvalidEvent(Invalid):
    """An event is not what its event type takes."""

    code = "invalid-event"
    message = "line {line}: {reason}"

    line: int | None
    """Number of the event in the request, from 1."""
    index: int | None
    """Number of the event in its batch, from 0."""
    reason: str


class MalformedEvent(InvalidEvent):
    """An event is no JSON, or JSON that readers would understand differently."""

    code = "malformed-event"
    message = "line {line}: {reason}"


class MalformedBatch(Invalid):
    """An array of events cannot be read, or one of its events."""

    code = "malformed-batch"
    message = "Error occurred when parsing event(s). Event {line}: {reason}"

    line: int | None
    """Number of the event, from 1; None if the array itself is malformed."""
    reason: str


class PartitionRefused(Invalid):
    """An event cannot go where it was asked to go."""

    code = "partition-refused"
    message = "line {line}: {reason}"

    line: int | None
    """Number of the event in the request, from 1."""
    index: int | None
    """Number of the event in its batch, from 0."""
    reason: str


class EventTooLarge(TooLarge):
    """One event is larger than the limit."""

    code = "event-too-large"
    message = "line {line}: the event has {size} bytes, more than the {limit} that one event may have"

    line: int | None
    """Number of the event in the request, from 1."""
    index: int | None
    """Number of the event in its batch, from 0."""
    size: int
    """In bytes."""
    limit: int
    """In bytes."""


class TooManyEvents(TooLarge):
    """A request hands in more events than one may."""

    code = "too-many-events"
    message = "the body has more than {limit} events"
    hint = "Send them in several requests."

    limit: int


class PublishingRestricted(Conflict):
    """The event type takes events only in ways that store each exactly once."""

    code = "publishing-restricted"
    message = "{event_type!r} takes events from the outbox and from idempotent producers alone"
    hint = "Publish through penstock.outbox, inside your own transaction, or with an IdempotentProducer."

    event_type: str


class UndeletableEvents(Invalid):
    """Events of this event type cannot be deleted by their keys, since it is not compacted."""

    code = "undeletable-events"
    message = "{event_type!r} is not compacted: its events cannot be deleted by their keys"
    hint = "Its cleanup_policy would have to be compact or compact_and_delete."

    event_type: str


class UnknownConsumer(Invalid):
    """Events are to be published to one subscription alone, which is not offered."""

    code = "unknown-consumer"
    message = "events cannot be published to one subscription alone, as X-CONSUMER-TAG asks for {subscription!r}"
    hint = "Publish without it. What a subscription has parked is sent to it again by POST …/parked/retry."

    subscription: str


class InsideTransaction(Conflict):
    """A publish was asked for inside the caller's own open transaction on the same database."""

    code = "inside-transaction"
    message = "this connection's transaction holds the database that the hub would have to write to"
    hint = "Use penstock.outbox.publish(connection, ...) inside your transaction."


class OutboxBacklog(Unavailable):
    """More waits in the outbox than could be moved within the time that a read may take."""

    code = "outbox-backlog"
    message = "what was committed to the outbox of {event_type!r} could not all be moved within {seconds} s"

    event_type: str
    seconds: float


class PartitionNotFound(NotFound):
    """The feed has no such partition."""

    code = "partition-not-found"
    message = "{event_type!r} has {partitions}, numbered from 0; there is no partition {partition}"

    event_type: str
    partition: int | str
    partition_count: int


class BadPartitionCount(Invalid):
    """The n of a read cannot be served."""

    code = "bad-partition-count"
    message = "n={n} does not work: the feed has {partitions}"
    hint = "GET the feed without parameters to see its partitions."

    n: int
    partition_count: int
    divisors: list[int]
    """The divisors of `partition_count`."""


class BadCursor(Invalid):
    """A cursor is garbage, of another feed or partition, or past the end."""

    code = "bad-cursor"
    message = "{parameter} is not a cursor that can be used here: {reason}"
    hint = "Bring a cursor that this feed gave for this partition, or begin again at _first (all) or _last (new ones)."

    parameter: str
    value: str | None
    reason: str
    n: int | None
    partition: int | None


class UnusableCursor(Invalid):
    """A cursor in Nakadi's shape is none, or stands where nothing can be read."""

    code = "unusable-cursor"
    message = "offset {offset} of partition {partition} cannot be used: {reason}"
    hint = "GET /event-types/{event_type}/partitions tells the offsets that there are; BEGIN is before the first."

    event_type: str | None
    partition: str | None
    offset: str | None
    reason: str
    oldest_available_offset: str | None
    newest_available_offset: str | None


class CursorSetNotFound(NotFound):
    """Nothing is stored under that cursor set."""

    code = "cursor-set-not-found"
    message = "nothing is stored for cursorset {cursorset!r} of {event_type!r} at n={n}, partition {partition}"
    hint = "Read with cursors and cursorset first; resume afterwards."

    event_type: str
    cursorset: str
    n: int
    partition: int


class CursorMoved(Conflict):
    """Another process has stored another cursor for the same consumer."""

    code = "cursor-moved"
    message = "{consumer!r} no longer stands at {expected!r} in partition {partition} of {feed!r}: it runs twice"
    hint = "Roll back, and go on from the cursors that are stored."

    feed: str
    consumer: str
    partition: int
    expected: str | None


class StaleToken(Conflict):
    """The partitions have changed since discovery."""

    code = "stale-token"
    message = "token {given!r} is out of date"
    hint = "Discover the feed again: GET it without arguments."

    given: str
    current: str
    """The token to use now."""


class StaleSplit(Conflict):
    """The partition count has changed under a slice's cursor."""

    code = "stale-split"
    message = "a slice's cursor, taken at n={n} of {cursor_count} partitions, does not fit the {partition_count} of now"
    hint = "Go on from a cursor of whole partitions if you have one, else begin again at _first."

    n: int
    cursor_count: int
    partition_count: int


class CursorExpired(PenstockError):
    """Events after it are gone."""

    code = "cursor-expired"
    message = (
        "{parameter} points to events of {event_type!r}, partition {partition}, that are gone: {reason}; {lost} events "
        "were lost, {first_available} is the first cursor available"
    )
    hint = "Go on at first_available without what was lost, or load the state anew from elsewhere: you have to decide."

    parameter: str
    event_type: str
    partition: int
    first_available: str
    """The first cursor that can still be read."""
    last_available: str
    lost: int | None
    """Number of events; None if unknown."""
    reason: str


class EventsLost(PenstockError):
    """What a query was to read is gone."""

    code = "events-lost"
    message = "{lost} events of {event_type!r}, partition {partition}, can no longer be read: {reason}"
    hint = (
        "Go on without them, by the option failOnDataLoss=false of a query or fail_on_loss=False of a source, or begin "
        "anew with another checkpoint."
    )

    event_type: str
    partition: int | None
    """None: all partitions."""
    lost: int | None
    """Number of events; None if unknown."""
    reason: str


class FeedCreatedAgain(EventsLost):
    """The feed that a processor was reading is another one now."""

    code = "feed-created-again"
    message = "{event_type!r}, partition {partition}, is another feed than this processor has read: {reason}"
    hint = (
        "What a processor keeps by index meant other events: begin anew. `penstock checkpoint forget` or `penstock "
        "groups reset` moves it, and a projection takes another version."
    )


class LandedPageMissing(PenstockError):
    """A page that had landed for a query is not where it was."""

    code = "landed-page-missing"
    message = "the page {page}, which had landed for this query, is not there"
    hint = "Put back what was deleted, or mount what is not; or begin anew with another checkpoint."

    page: str
    """Where the page was."""


class EventUnfit(Invalid):
    """An event is not of the type into which it was to be read."""

    code = "event-unfit"
    message = "{told} is no {type}: {member} {reason}"
    hint = "Decide: correct the type, or keep event.raw for later and go on, for the page's cursors lead past it."

    feed: str
    partition: int | None
    cursor: str | None
    """The last cursor before the event."""
    place: int
    """Number of the event after that cursor, from 1."""
    eid: str | None
    type: str
    member: str
    reason: str
    told: str
