"""What cannot be done as it was asked for: it is invalid, too large, not there, not possible now, or not allowed."""

from penstock.errors.root import PenstockError


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


class UnusableCursor(Invalid):
    """A cursor in Nakadi's shape is none, or stands where nothing can be read. Fields: partition, offset, reason."""

    code = "unusable-cursor"
    message = "offset {offset} of partition {partition} cannot be used: {reason}"
    hint = "GET /event-types/{event_type}/partitions tells the offsets that there are; BEGIN is before the first."


class UnusableStart(UnusableCursor):
    """A stream cannot begin at a cursor that it was given. Fields: partition, offset, reason."""

    code = "unusable-start"
    message = UnusableCursor.message


class BadStreamParameter(Invalid):
    """A stream's parameters are numbers, but do not go together. Fields: parameter, value, allowed."""

    code = "bad-stream-parameter"
    message = "parameter {parameter} is {value!r}; allowed: {allowed}"


class BadPartitionCount(Invalid):
    """The n of a read cannot be served. Fields: n, partition_count, divisors (of it)."""

    code = "bad-partition-count"
    message = "n={n} does not work: the feed has {partitions}"
    hint = "GET the feed without parameters to see its partitions."


class InvalidEvent(Invalid):
    """An event is not what its event type takes. Fields: line or index, reason."""

    code = "invalid-event"
    message = "line {line}: {reason}"


class MalformedEvent(InvalidEvent):
    """An event is no JSON, or JSON that readers would understand differently. Fields: line, reason."""

    code = "malformed-event"
    message = "line {line}: {reason}"


class MalformedBatch(Invalid):
    """An array of events cannot be read, or one of its events.

    Fields: line (of the event, from 1; not there where the array itself is wrong), reason.
    """

    code = "malformed-batch"
    message = "Error occurred when parsing event(s). Event {line}: {reason}"


class InvalidEventType(Invalid):
    """An event type's definition breaks a rule.

    Fields: field, reason, violations (all fields that are wrong, and why, where more than one was looked at),
    producers, consumers, changes (as `incompatible-schema` has them, where the definition has another schema too).
    """

    code = "invalid-event-type"
    message = 'Field "{field}" {reason}'


class MalformedEventType(InvalidEventType):
    """A member of a definition is of the wrong type, or none of the values that it can have. Fields: field, reason."""

    code = "malformed-event-type"


class GuidelinesBroken(Invalid):
    """A definition breaks guidelines of the level MUST, which this hub refuses. Fields: event_type, broken."""

    code = "guidelines-broken"
    message = "{event_type!r} does not keep the event guidelines: {broken}"
    hint = "Keep them, or waive each with a reason: `penstock event-type check` says how."


class IncompatibleSchema(Invalid):
    """A change of an event type's schema that its compatibility mode refuses.

    Fields: event_type, mode, evolution (its option), producers and consumers (whether it is certain that they could
    stay as they are), changes.
    """

    code = "incompatible-schema"
    message = "Invalid schema: {event_type!r} cannot be changed so"
    hint = (
        "Each of `changes` says what to do instead; what else is needed takes another event type, or another "
        "`compatibility_mode`: change that first, by itself, and the schema then."
    )


class PartitionRefused(Invalid):
    """An event cannot go where it was asked to go. Fields: line, reason."""

    code = "partition-refused"
    message = "line {line}: {reason}"


class InvalidSetting(Invalid):
    """A setting of the hub is not what it has to be. Fields: field, reason."""

    code = "invalid-setting"
    message = 'Field "{field}" {reason}'


class StorageFixed(Invalid):
    """Another storage, or another timeline of an event type, was asked for. Fields: storage (the one there is)."""

    code = "storage-fixed"
    message = "there is one storage, {storage!r}, and each event type has one timeline in it: none can be added"
    hint = "Events lie in the hub's own database. Leave out what would choose where they lie."


class EncodingRefused(Invalid):
    """A body was announced as encoded with a method that takes none so. Fields: method, encoding."""

    code = "encoding-refused"
    message = "{method} method doesn't support {encoding} content encoding"
    hint = "Leave the header Content-Encoding out; a body of POST may be gzip or zstd."


class UnsupportedMediaType(Invalid):
    """A body is in a form that is not spoken here. Fields: given, allowed."""

    code = "unsupported-media-type"
    message = "{given} is not spoken here; use {allowed}"


class MalformedRequest(Invalid):
    """The bytes of a request are no HTTP/1.1 (RFC 9112). Fields: reason."""

    code = "malformed-request"
    message = "the request is no valid HTTP/1.1: {reason}"


class RequestTooSlow(PenstockError):
    """A request's head or body took too long to arrive. Fields: part (headers or body), timeout_seconds."""

    code = "request-too-slow"
    message = "the {part} of the request did not arrive within {timeout_seconds} seconds"
    hint = "Send it again over a faster connection, or send less at a time."


class NotAcceptable(Invalid):
    """The answer has none of the forms that the header Accept names. Fields: accept, allowed (the forms it has)."""

    code = "not-acceptable"
    message = "Accept is {accept!r}, but the answer comes as {allowed} only"
    hint = "Name one of these in Accept, or leave that header out."


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


class TargetTooLong(TooLarge):
    """A request target, path and query, is longer than the limit. Fields: limit (bytes)."""

    code = "target-too-long"
    message = "the request target is longer than {limit} bytes"
    hint = "Ask for fewer partitions at a time."


class HeadersTooLarge(TooLarge):
    """A request's headers are larger than the limit. Fields: limit (bytes)."""

    code = "headers-too-large"
    message = "the headers of the request are larger than {limit} bytes"


class TooManyEvents(TooLarge):
    """A request hands in more events than one may. Fields: limit."""

    code = "too-many-events"
    message = "the body has more than {limit} events"
    hint = "Send them in several requests."


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


class StorageNotFound(NotFound):
    """There is no storage of that id. Fields: storage, existing (the one there is)."""

    code = "storage-not-found"
    message = "there is no storage {storage!r}; the one there is is {existing!r}"


class UnknownConsumer(Invalid):
    """Events are to be published to one subscription alone, which is not offered. Fields: subscription."""

    code = "unknown-consumer"
    message = "events cannot be published to one subscription alone, as X-CONSUMER-TAG asks for {subscription!r}"
    hint = "Publish without it. What a subscription has parked is sent to it again by POST …/parked/retry."


class SchemaVersionNotFound(NotFound):
    """The event type has no such version of its schema. Fields: event_type, version (None: none equals the given)."""

    code = "schema-version-not-found"
    message = "{event_type!r} has no schema version {version}"
    hint = "GET /event-types/{event_type}/schemas lists those that there are."


class Conflict(PenstockError):
    """Right in itself, but not in the state that things are in."""

    code = "conflict"


class EventTypeExists(Conflict):
    """An event type of that name exists. Fields: event_type."""

    code = "event-type-exists"
    message = "there is an event type {event_type!r} already"


class EventTypeInUse(Conflict):
    """An event type cannot be deleted while subscriptions read it. Fields: event_type, subscriptions (their names)."""

    code = "event-type-in-use"
    message = "{event_type!r} is read by subscriptions: {subscriptions}"
    hint = "Delete them first."


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
    message = "{event_type!r} takes events from the outbox and from idempotent producers alone"
    hint = "Publish through penstock.outbox, inside your own transaction, or with an IdempotentProducer."


class UndeletableEvents(Invalid):
    """Events of this event type cannot be deleted by their keys, since it is not compacted. Fields: event_type."""

    code = "undeletable-events"
    message = "{event_type!r} is not compacted: its events cannot be deleted by their keys"
    hint = "Its cleanup_policy would have to be compact or compact_and_delete."


class SnapshotOutdated(Conflict):
    """A SQLite transaction that began as a read wants to write, and another one has written since."""

    code = "snapshot-outdated"
    message = "this transaction began as a read and was overtaken: SQLite never lets it write (SQLITE_BUSY_SNAPSHOT)"
    hint = "Roll back, and repeat the whole transaction with BEGIN IMMEDIATE at its beginning."


class Forbidden(PenstockError):
    """It could be done, but not by whoever asks, or not here."""

    code = "forbidden"


class Blocked(Forbidden):
    """An operator has blocked an event type or an application. Fields: event_type, application."""

    code = "blocked"
    message = "Application or event type is blocked"
    hint = "Whoever runs the hub can lift it: DELETE /settings/blacklist/..."


class StorageInUse(Forbidden):
    """The storage holds all events, and cannot be deleted. Fields: storage."""

    code = "storage-in-use"
    message = "storage {storage!r} holds the events of all event types"


class NotOffered(PenstockError):
    """The hub could do it, but has been told not to. Fields: feature (which setting says so)."""

    code = "not-offered"
    message = "this hub does not do that: its feature {feature} is switched on"
