"""What can stand in the way of a subscription."""

from penstock.errors.failed import Unavailable
from penstock.errors.refused import Conflict, Invalid, NotFound


class InvalidSubscription(Invalid):
    """A subscription's definition breaks a rule.

    Fields: field, reason, violations (all fields that are wrong), partitions (asked for, but none that it reads).
    """

    code = "invalid-subscription"
    message = 'Field "{field}" {reason}'


class MalformedSubscription(InvalidSubscription):
    """A member of a subscription is of the wrong type, or none of the values it can have. Fields: field, reason."""

    code = "malformed-subscription"


class SubscriptionNotFound(NotFound):
    """There is no subscription of that id. Fields: subscription."""

    code = "subscription-not-found"
    message = 'Subscription with id "{subscription}" does not exist'


class ParkedNotFound(NotFound):
    """No key of the subscription is parked under that id. Fields: subscription, parked."""

    code = "parked-not-found"
    message = "subscription {subscription} has no parked key with the id {parked}"
    hint = "GET /subscriptions/{subscription}/parked lists those that there are."


class NoFreeSlots(Conflict):
    """As many stream a subscription as can. Fields: subscription, slots (how many partitions it has)."""

    code = "no-free-slots"
    message = "No free slots for streaming available for subscription {subscription}. Total slots: {slots}"
    hint = "Each partition goes to one stream at a time: try again when one of the others has ended."


class PartitionsTaken(Conflict):
    """Another stream has asked for the same partitions. Fields: subscription, partitions (event_type, partition)."""

    code = "partitions-taken"
    message = "another stream of subscription {subscription} has asked for some of these partitions"
    hint = "Ask for others, or for none: then this stream has its share of those that nobody has asked for."


class ResetUnderWay(Conflict):
    """Somebody is moving the cursors of the subscription. Fields: subscription."""

    code = "reset-under-way"
    message = "the cursors of subscription {subscription} are being reset"
    hint = "Try again in a moment."


class StreamNotFound(Invalid):
    """The stream that a commit names is not there, or its time to commit is over. Fields: stream."""

    code = "stream-not-found"
    message = "Session with stream id {stream} not found"
    hint = "Its events are sent again: open a stream, and commit with its X-Nakadi-StreamId."


class CommitRefused(Invalid):
    """A stream cannot commit a cursor. Fields: event_type, partition, offset, reason."""

    code = "commit-refused"
    message = "offset {offset} of partition {partition} of {event_type!r} cannot be committed: {reason}"
    hint = "Nothing of this request was committed."


class StreamsInTheWay(Unavailable):
    """The streams of a subscription did not end in time for a reset. Fields: subscription, streams, retry_after."""

    code = "streams-in-the-way"
    message = "{streams} streams of subscription {subscription} have not ended in time; nothing was reset"
