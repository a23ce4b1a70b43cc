"""Every error that Penstock raises.

    PenstockError
    ├── Invalid                  what was handed in cannot be right
    │   ├── BadParameter
    │   ├── BadCursor
    │   ├── BadPartitionCount
    │   ├── InvalidEvent
    │   ├── InvalidEventType
    │   ├── PartitionRefused
    │   └── UnsupportedMediaType
    ├── TooLarge
    │   ├── EventTooLarge
    │   └── BodyTooLarge
    ├── NotFound
    │   ├── EventTypeNotFound
    │   ├── PartitionNotFound
    │   └── CursorSetNotFound
    ├── Conflict                 right in itself, but not now
    │   ├── EventTypeExists
    │   ├── StaleToken
    │   ├── StaleSplit
    │   ├── CursorMoved
    │   ├── InsideTransaction
    │   ├── PublishingRestricted
    │   └── SnapshotOutdated
    ├── CursorExpired            the events after it are no longer all there
    ├── EventsLost               what a query was to read can no longer be read
    ├── Unavailable              try again later, unchanged
    │   ├── DatabaseUnavailable
    │   ├── DiskFull
    │   ├── OutboxBacklog
    │   ├── HubStopped
    │   ├── Unreachable          nothing was sent
    │   └── ConnectionLost       the answer broke off
    ├── OutcomeUnknown           the request may or may not have been carried out
    ├── ServerError              another server's answer that is none of ours
    │   └── WrongAddress         neither a hub nor a feed is there
    ├── MalformedAnswer          an answer that breaks its protocol
    ├── RequirementMissing       something that does not come with Penstock has to be installed
    └── SchemaError              the database is not one that this version can work with
        ├── SchemaMissing
        ├── SchemaTooNew
        └── EncodingUnsuitable

An error carries its fields; the message is made from them. It survives pickling, as Spark hands errors on, and HTTP:
`penstock.wire.problem` turns it into problem+json and back by its code.
"""

from functools import partial
from typing import Any, ClassVar


class PenstockError(Exception):
    """The root. `code` is stable and part of the protocol; `fields` are what a program can use."""

    code: ClassVar[str] = "penstock-error"
    message: ClassVar[str] = "{detail}"
    hint: ClassVar[str | None] = None
    """What to do about it, where one sentence can say that."""
    retryable: ClassVar[bool] = False
    """Whether the same request can succeed later, unchanged."""

    def __init__(self, detail: str | None = None, /, **fields: Any) -> None:
        self.detail = detail if detail is not None else self.message.format_map(_Said(fields))
        self.fields = fields
        super().__init__(self.detail)

    def __str__(self) -> str:
        return f"{self.detail}. {self.hint}" if self.hint else self.detail

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self.detail, **self.fields), ()


class _Said(dict[str, Any]):
    """Fields as a sentence says them; one that is missing leaves a hole, for an error about an error helps nobody."""

    def __getitem__(self, name: str) -> Any:
        if name == "partitions" and "partitions" not in self:
            count = self["partition_count"]
            return "1 partition" if count == 1 else f"{count} partitions"
        if name == "said":
            return "is missing" if self.get("value") is None else f"is {self['value']!r}"
        value = self.get(name, "?")
        return "an unknown number of" if name == "lost" and value is None else value


class Invalid(PenstockError):
    """What was handed in cannot be right; it will not be right later either."""

    code = "invalid"


class BadParameter(Invalid):
    """A parameter is missing, malformed or out of range. Fields: parameter, value (None: it is missing), allowed."""

    code = "bad-parameter"
    message = "parameter {parameter} {said}; allowed: {allowed}"


class BadCursor(Invalid):
    """A cursor is garbage, of another feed or partition, or past the end. Fields: parameter, value, reason."""

    code = "bad-cursor"
    message = "{parameter} is not a cursor that can be used here: {reason}"
    hint = "Bring a cursor that this feed gave for this partition, or begin again at _first (all) or _last (new ones)."


class BadPartitionCount(Invalid):
    """The n of a read cannot be served. Fields: n, partition_count, divisors (of it)."""

    code = "bad-partition-count"
    message = "n={n} does not work: the feed has {partitions}"
    hint = "GET the feed without parameters to see its partitions."


class InvalidEvent(Invalid):
    """An event is not what its event type takes. Fields: line or index, reason."""

    code = "invalid-event"
    message = "line {line}: {reason}"


class InvalidEventType(Invalid):
    """An event type's definition breaks a rule. Fields: field, reason."""

    code = "invalid-event-type"
    message = 'Field "{field}" {reason}'


class PartitionRefused(Invalid):
    """An event cannot go where it was asked to go. Fields: line, reason."""

    code = "partition-refused"
    message = "line {line}: {reason}"


class UnsupportedMediaType(Invalid):
    """A body or an answer was asked for in a form that is not spoken here. Fields: given, allowed."""

    code = "unsupported-media-type"
    message = "{given} is not spoken here; use {allowed}"


class TooLarge(PenstockError):
    """More bytes than a limit allows."""

    code = "too-large"


class EventTooLarge(TooLarge):
    """One event is larger than the limit. Fields: line, size, limit (bytes)."""

    code = "event-too-large"
    message = "line {line}: the event has {size} bytes, more than the {limit} that one event may have"


class BodyTooLarge(TooLarge):
    """A request body is larger than the limit. Fields: limit (bytes)."""

    code = "body-too-large"
    message = "the body is larger than {limit} bytes"
    hint = "Send it in several requests."


class NotFound(PenstockError):
    """What was named does not exist."""

    code = "not-found"


class EventTypeNotFound(NotFound):
    """There is no event type of that name. Fields: event_type."""

    code = "event-type-not-found"
    message = "there is no event type {event_type!r}"
    hint = "Create it with `penstock event-type create NAME` or POST /event-types."


class PartitionNotFound(NotFound):
    """The feed has no such partition. Fields: event_type, partition, partition_count."""

    code = "partition-not-found"
    message = "{event_type!r} has {partitions}, numbered from 0; there is no partition {partition}"


class CursorSetNotFound(NotFound):
    """Nothing is stored under that cursor set. Fields: event_type, cursorset, n, partition."""

    code = "cursor-set-not-found"
    message = "nothing is stored for cursorset {cursorset!r} of {event_type!r} at n={n}, partition {partition}"
    hint = "Read with cursors and cursorset first; resume afterwards."


class Conflict(PenstockError):
    """Right in itself, but not in the state that things are in."""

    code = "conflict"


class EventTypeExists(Conflict):
    """An event type of that name exists. Fields: event_type."""

    code = "event-type-exists"
    message = "there is an event type {event_type!r} already"


class StaleToken(Conflict):
    """The partitions have changed since discovery. Fields: given, current."""

    code = "stale-token"
    message = "token {given!r} is out of date"
    hint = "Discover the feed again: GET it without arguments."


class StaleSplit(Conflict):
    """The partition count has changed under a slice's cursor. Fields: n, cursor_count, partition_count."""

    code = "stale-split"
    message = "a slice's cursor, taken at n={n} of {cursor_count} partitions, does not fit the {partition_count} of now"
    hint = "Go on from a cursor of whole partitions if you have one, else begin again at _first."


class CursorMoved(Conflict):
    """Another process has stored another cursor for the same consumer. Fields: feed, consumer, partition, expected."""

    code = "cursor-moved"
    message = "{consumer!r} no longer stands at {expected!r} in partition {partition} of {feed!r}: it runs twice"
    hint = "Roll back, and go on from the cursors that are stored."


class InsideTransaction(Conflict):
    """A publish was asked for inside the caller's own open transaction on the same database."""

    code = "inside-transaction"
    message = "this connection's transaction holds the database that the hub would have to write to"
    hint = "Use penstock.outbox.publish(connection, ...) inside your transaction."


class PublishingRestricted(Conflict):
    """The event type takes events only in ways that store each exactly once. Fields: event_type."""

    code = "publishing-restricted"
    message = "{event_type!r} takes events from the outbox alone"
    hint = "Publish through penstock.outbox, inside your own transaction."


class SnapshotOutdated(Conflict):
    """A SQLite transaction that began as a read wants to write, and another one has written since."""

    code = "snapshot-outdated"
    message = "this transaction began as a read and was overtaken: SQLite never lets it write (SQLITE_BUSY_SNAPSHOT)"
    hint = "Roll back, and repeat the whole transaction with BEGIN IMMEDIATE at its beginning."


class CursorExpired(PenstockError):
    """Events after it are gone. Fields: parameter, event_type, partition, first_available, last_available, lost."""

    code = "cursor-expired"
    message = (
        "{parameter} points to events of {event_type!r}, partition {partition}, that are gone: {reason}; {lost} events "
        "were lost, {first_available} is the first cursor available"
    )
    hint = "Go on at first_available without what was lost, or load the state anew from elsewhere: you have to decide."


class EventsLost(PenstockError):
    """What a query was to read is gone. Fields: event_type, partition (None: all), lost (None: unknown), reason."""

    code = "events-lost"
    message = "{lost} events of {event_type!r}, partition {partition}, can no longer be read: {reason}"
    hint = "Set the option failOnDataLoss to false to go on without them, or begin anew with another checkpoint."


class Unavailable(PenstockError):
    """The request can be repeated unchanged after a while. Fields: retry_after (seconds)."""

    code = "unavailable"
    message = "not available now: {reason}"
    retryable = True


class DatabaseUnavailable(Unavailable):
    """The database does not answer, or not in time."""

    code = "database-unavailable"
    message = "the database cannot be used now: {reason}"


class DiskFull(Unavailable):
    """The database has no room left; nothing was written."""

    code = "disk-full"
    message = "the database has no room left, nothing was written: {reason}"


class OutboxBacklog(Unavailable):
    """More waits in the outbox than could be moved within the time that a read may take."""

    code = "outbox-backlog"
    message = "what was committed to the outbox of {event_type!r} could not all be moved within {seconds} s"


class HubStopped(Unavailable):
    """The hub is shutting down."""

    code = "hub-stopped"
    message = "the hub is shutting down"


class Unreachable(Unavailable):
    """The server could not be reached: nothing was sent. Fields: url, reason."""

    code = "unreachable"
    message = "{url} cannot be reached: {reason}"
    hint = "Check the address, and that the hub runs."


class ConnectionLost(Unavailable):
    """The connection broke, or timed out, before the whole answer had come. Fields: url, reason."""

    code = "connection-lost"
    message = "the connection to {url} was lost before the whole answer had come: {reason}"


class OutcomeUnknown(PenstockError):
    """The request may or may not have been carried out, and a repeat could do it twice. Fields: reason."""

    code = "outcome-unknown"
    message = "it is not known whether this was carried out: {reason}"
    hint = "Look whether it was before you repeat it: in the feed, where it was a publish."


class ServerError(PenstockError):
    """A server answered with an error that is none of ours. Fields: status, url, body (its beginning)."""

    code = "server-error"
    message = "{url} answered {status}: {body}"


class WrongAddress(ServerError):
    """What answers there is neither a hub nor a feed. Fields: status, url, body (its beginning), wanted (which)."""

    code = "wrong-address"
    message = "no {wanted} answers at {url}, but something that says {status}: {body}"
    hint = "Check scheme, host, port and path. A browser shows what answers at that address."


class MalformedAnswer(PenstockError):
    """A server answered with something that its protocol does not allow. Fields: url, reason."""

    code = "malformed-answer"
    message = "{url} gave an answer that cannot be used: {reason}"
    hint = "Check the address: another server may answer there, or a proxy in between may have changed the answer."


class RequirementMissing(PenstockError):
    """Something that does not come with Penstock is not there, or too old. Fields: needed, found, install."""

    code = "requirement-missing"
    message = "{needed} is needed, {found} found; {install}"


class SchemaError(PenstockError):
    """The database's tables are not those that this version works with."""

    code = "schema-error"


class SchemaMissing(SchemaError):
    """The database has no Penstock tables, or older ones. Fields: found, wanted."""

    code = "schema-missing"
    message = "the database is at schema version {found}, this Penstock needs {wanted}"
    hint = "Run `penstock migrate --database URL` with the URL of this database."


class SchemaTooNew(SchemaError):
    """The database was migrated by a newer Penstock. Fields: found, wanted."""

    code = "schema-too-new"
    message = "the database is at schema version {found}, newer than the {wanted} that this Penstock knows"
    hint = "Install a newer Penstock."


class EncodingUnsuitable(SchemaError):
    """The database stores text in an encoding in which events cannot be kept byte for byte. Fields: found, wanted."""

    code = "encoding-unsuitable"
    message = "the database's encoding is {found}, Penstock needs {wanted}"
    hint = "Use another: `CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0` makes one, SQLite any new file."


ALL: tuple[type[PenstockError], ...] = tuple(
    kind for kind in list(vars().values()) if isinstance(kind, type) and issubclass(kind, PenstockError)
)
"""Every error, in the order of the tree."""
