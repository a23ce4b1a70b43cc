"""Errors of subscriptions and their streams."""

from typing import ClassVar

from penstock.errors.root import Case, Conflict, Invalid, NotFound


class InvalidSubscription(Invalid):
    """The definition of a subscription is malformed or breaks a rule."""

    code = "invalid-subscription"
    message = 'Field "{field}" {reason}'
    cases: ClassVar = {"malformed-subscription": Case('Field "{field}" {reason}')}

    field: str | None
    reason: str
    violations: list[dict[str, str]] | None
    """All invalid fields with their reasons, if more than one was checked."""
    partitions: list[dict[str, str]] | None
    """Requested partitions that the subscription does not read."""
    missing: list[str] | None
    """Event types that do not exist."""


class SubscriptionNotFound(NotFound):
    """There is no subscription with this id."""

    code = "subscription-not-found"
    message = 'Subscription with id "{subscription}" does not exist'
    hint = "List the subscriptions, or create one."

    subscription: str


class SubscriptionBusy(Conflict):
    """A stream cannot start, or a cursor cannot move, while others use the subscription."""

    code = "subscription-busy"
    cases: ClassVar = {
        "no-free-slots": Case(
            "No free slots for streaming available for subscription {subscription}. Total slots: {slots}",
            "Each partition is read by one stream at a time. Try again when another stream has ended.",
        ),
        "partitions-taken": Case(
            "another stream of subscription {subscription} has claimed some of these partitions",
            "Ask for other partitions, or for none: the stream then gets its share of the unclaimed ones.",
        ),
        "reset-under-way": Case(
            "the cursors of subscription {subscription} are being reset", "Try again in a few seconds."
        ),
    }

    subscription: str
    slots: int | None
    """Number of partitions, in `no-free-slots`."""
    partitions: list[dict[str, str]] | None
    """The claimed partitions, in `partitions-taken`."""


class StreamNotFound(Invalid):
    """The stream of a commit has ended, or its commit timeout has passed."""

    code = "stream-not-found"
    message = "Session with stream id {stream} not found"
    hint = "Open a stream, which redelivers the uncommitted events, and commit with its X-Nakadi-StreamId."

    stream: str


class CommitRefused(Invalid):
    """A stream cannot commit this cursor."""

    code = "commit-refused"
    message = "offset {offset} of partition {partition} of {event_type!r} cannot be committed: {reason}"
    hint = "Nothing of this request was committed."

    event_type: str
    partition: str
    offset: int
    reason: str


class ParkedNotFound(NotFound):
    """There is no such parked key of a subscription, or parked stream of a processor."""

    code = "parked-not-found"
    message = "subscription {subscription} has no parked key with the id {parked}"
    hint = "GET /subscriptions/{subscription}/parked lists the parked keys."
    cases: ClassVar = {
        "parked-stream-not-found": Case(
            "processor {processor!r} has no parked stream {stream!r}",
            "`penstock groups parked list {processor}` lists the parked streams.",
        ),
        "parked-of-group-not-found": Case(
            "the consumer group {group!r} has no parked stream with the id {parked}",
            "GET /groups/{group}/parked lists the parked streams.",
        ),
    }

    subscription: str | None
    """The subscription in `parked-not-found`."""
    parked: str | int | None
    """The id of the parked key or stream; None in `parked-stream-not-found`."""
    group: str | None
    """The consumer group in `parked-of-group-not-found`."""
    processor: str | None
    """The processor in `parked-stream-not-found`."""
    stream: str | None
    """The stream in `parked-stream-not-found`."""
