"""Errors of subscriptions and their streams."""

from typing import Any

from penstock.errors.log import UnusableCursor
from penstock.errors.root import Conflict, Invalid, NotFound, Unavailable


class InvalidSubscription(Invalid):
    """A subscription's definition breaks a rule."""

    code = "invalid-subscription"
    message = 'Field "{field}" {reason}'

    field: str | None
    reason: str
    violations: list[dict[str, str]] | None
    partitions: list[dict[str, str]] | None
    """Requested partitions that the subscription does not read."""
    missing: list[str] | None
    """Event types that do not exist."""


class MalformedSubscription(InvalidSubscription):
    """A member of a subscription is of the wrong type, or none of the values it can have."""

    code = "malformed-subscription"


class SubscriptionNotFound(NotFound):
    """There is no subscription of that id."""

    code = "subscription-not-found"
    message = 'Subscription with id "{subscription}" does not exist'

    subscription: str


class NoFreeSlots(Conflict):
    """As many stream a subscription as can."""

    code = "no-free-slots"
    message = "No free slots for streaming available for subscription {subscription}. Total slots: {slots}"
    hint = "Each partition goes to one stream at a time: try again when one of the others has ended."

    subscription: str
    slots: int
    """Number of partitions."""


class PartitionsTaken(Conflict):
    """Another stream has asked for the same partitions."""

    code = "partitions-taken"
    message = "another stream of subscription {subscription} has asked for some of these partitions"
    hint = "Ask for others, or for none: then this stream has its share of those that nobody has asked for."

    subscription: str
    partitions: list[dict[str, str]]


class ResetUnderWay(Conflict):
    """Somebody is moving the cursors of the subscription."""

    code = "reset-under-way"
    message = "the cursors of subscription {subscription} are being reset"
    hint = "Try again in a moment."

    subscription: str


class StreamsInTheWay(Unavailable):
    """The streams of a subscription did not end in time for a reset."""

    code = "streams-in-the-way"
    message = "{streams} streams of subscription {subscription} have not ended in time; nothing was reset"

    subscription: str
    streams: int
    """Number of streams."""


class BadStreamParameter(Invalid):
    """A stream's parameters are numbers, but do not go together."""

    code = "bad-stream-parameter"
    message = "parameter {parameter} is {value!r}; allowed: {allowed}"

    parameter: str
    value: Any
    allowed: str


class UnusableStart(UnusableCursor):
    """A stream cannot begin at a cursor that it was given."""

    code = "unusable-start"
    message = UnusableCursor.message


class StreamNotFound(Invalid):
    """The stream that a commit names is not there, or its time to commit is over."""

    code = "stream-not-found"
    message = "Session with stream id {stream} not found"
    hint = "Its events are sent again: open a stream, and commit with its X-Nakadi-StreamId."

    stream: str


class CommitRefused(Invalid):
    """A stream cannot commit a cursor."""

    code = "commit-refused"
    message = "offset {offset} of partition {partition} of {event_type!r} cannot be committed: {reason}"
    hint = "Nothing of this request was committed."

    event_type: str
    partition: str
    offset: int
    reason: str


class ParkedNotFound(NotFound):
    """No key of the subscription is parked under that id."""

    code = "parked-not-found"
    message = "subscription {subscription} has no parked key with the id {parked}"
    hint = "GET /subscriptions/{subscription}/parked lists those that there are."

    subscription: str
    parked: str
