"""What can stand in the way of publishing idempotently.

What the hub knows of the batch is in their fields: `committed` (whether all of it is stored; None: that is not known
any more), `ranges` (the offsets of what is), and the producer's `current_epoch` and `next_sequence`.
"""

from penstock.errors.failed import Unavailable
from penstock.errors.refused import BadParameter, Conflict, Invalid, NotFound
from penstock.errors.root import PenstockError


class BadProducerHeaders(BadParameter):
    """The headers that say who publishes are not all there, or malformed. Fields: parameter, value, allowed."""

    code = "bad-producer-headers"
    message = "header {parameter} {said}; allowed: {allowed}"
    hint = "Producer-Group, Producer-Epoch and Producer-Sequence go together, or none of them is there."


class PartitionRequired(Invalid):
    """Idempotent publishing goes to a partition, never to an event type as a whole. Fields: event_type."""

    code = "partition-required"
    message = "who publishes idempotently names the partition: POST /event-types/{event_type}/partitions/.../events"


class ProducerUnsafe(PenstockError):
    """It is not safe to go on publishing with this producer in this partition: close it, and make another."""

    code = "producer-unsafe"
    hint = "Close this producer and make another one, which takes over with an epoch of its own."


class ProducerFenced(ProducerUnsafe):
    """A producer with a higher epoch has taken over.

    Fields: producer_group, partition, received, current_epoch, next_sequence, committed, ranges.
    """

    code = "producer-fenced"
    message = "{producer_group!r} publishes to partition {partition} with epoch {current_epoch} by now"


class SequenceGap(ProducerUnsafe):
    """The batch does not follow the last event.

    Fields: producer_group, partition, expected, received, current_epoch, next_sequence, committed, ranges.
    """

    code = "sequence-gap"
    message = "{producer_group!r} goes on with number {expected} in partition {partition}, not with {received}"


class SequenceOverlap(ProducerUnsafe):
    """The beginning of the batch is stored, and the rest is not.

    Fields: producer_group, partition, received, current_epoch, next_sequence (that of the first event that is not
    stored), committed, ranges.
    """

    code = "sequence-overlap"
    message = (
        "what {producer_group!r} has sent to partition {partition} is stored up to number {next_sequence}, which lies "
        "within the batch"
    )
    hint = (
        "Close this producer and make another one, or have the rest appended: over HTTP, by the header "
        "Producer-Overlap: trim."
    )


class SequenceTooOld(ProducerUnsafe):
    """There is nothing left to compare the batch with.

    Fields: producer_group, partition, received, current_epoch, next_sequence, committed, ranges.
    """

    code = "sequence-too-old"
    message = (
        "number {received} of {producer_group!r} in partition {partition} is so old that what was stored under it is "
        "not known any more"
    )


class PayloadMismatch(ProducerUnsafe):
    """Other events are stored under the same numbers.

    Fields: producer_group, partition, received, differs_at, current_epoch, next_sequence, committed, ranges.
    """

    code = "payload-mismatch"
    message = "another event of {producer_group!r} is stored under number {differs_at} in partition {partition}"
    hint = (
        "Two producers with one group and one epoch do this, or one that numbers other events again. Close this "
        "producer and make another one, which takes over with an epoch of its own."
    )


class ProducerStateExpired(ProducerUnsafe):
    """What was known of the producer is forgotten.

    Fields: producer_group, partition, received, current_epoch (the last one), next_sequence (None), committed, ranges.
    """

    code = "producer-state-expired"
    message = "{producer_group!r} has expired in partition {partition}: it was not heard of for too long, or deleted"
    hint = "Close this producer and make another one, which claims the next epoch."


class ServerStateRegressed(ProducerUnsafe):
    """The hub has lost events that it had acknowledged, as after a backup was put back.

    Fields: producer_group, partition, current_epoch, expected (the number of the first that is missing), received,
    missing (how many are).
    """

    code = "server-state-regressed"
    message = (
        "the hub knows {producer_group!r} in partition {partition} up to number {expected} only, and had acknowledged "
        "{missing} events from there on: they are lost"
    )
    hint = (
        "Close this producer, find out what the hub was put back to, and publish the lost events again with another "
        "producer."
    )


class RetriesExhausted(Unavailable):
    """A batch could not be published in the time, or with the attempts, that it had.

    Fields: partition, attempts, outcome (`not_stored`; `unknown`: it may be stored, which the next send finds out).
    """

    code = "retries-exhausted"
    message = (
        "the batch for partition {partition} could not be published (attempts: {attempts}, outcome: {outcome}): "
        "{reason}"
    )
    retryable = False


class PublishCancelled(PenstockError):
    """Publishing was cancelled. Fields: partition, outcome (`not_stored`; `unknown`: it may be stored)."""

    code = "publish-cancelled"
    message = "publishing to partition {partition} was cancelled; the outcome is {outcome}"


class AlreadyPublished(Conflict):
    """What was published once is handed in again. Fields: partition, sequence."""

    code = "already-published"
    message = "this was published to partition {partition} already, with number {sequence}"
    hint = "Make a new Event, or a new batch, for each time that something is to be published."


class ReplayDiffers(Conflict):
    """What is published again is not what was, before.

    Fields: event_type, partition, producer_group, reason, event (its place, from 1, where it is one event).
    """

    code = "replay-differs"
    message = "this is not what {producer_group!r} has published to {event_type!r}, partition {partition}: {reason}"
    hint = (
        "Another series of events, or another file, needs a producer group of its own, which nothing else uses. One "
        "whose group was claimed or forgotten, or whose event type has got more partitions, cannot be gone on with: "
        "see what is stored, and publish the rest under another group."
    )


class ClaimRefused(Conflict):
    """An epoch cannot be had. Fields: producer_group, partition, current_epoch, next_sequence, wanted."""

    code = "claim-refused"
    message = "{producer_group!r} is at {stands} in partition {partition}: {wanted} cannot be had"
    hint = 'The owner_level "next" takes over from whoever has the current one.'


class EpochExhausted(Conflict):
    """There is no epoch after the current one. Fields: producer_group, partition, current_epoch, next_sequence."""

    code = "epoch-exhausted"
    message = "{producer_group!r} has come to the last epoch there is in partition {partition}, {current_epoch}"
    hint = "Go on with another producer group."


class ProducerNotFound(NotFound):
    """Nobody has published with that producer group. Fields: event_type, partition, producer_group."""

    code = "producer-not-found"
    message = "nobody has published to {event_type!r}, partition {partition}, as {producer_group!r}"


class TooManyProducers(PenstockError):
    """The partition has as many producer groups as it may. Fields: event_type, partition, limit."""

    code = "too-many-producers"
    message = "partition {partition} has {limit} producer groups already"
    hint = "Use few groups with names that last, or forget those that are done: DELETE .../producers/{group}."
