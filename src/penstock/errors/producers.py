"""Errors of idempotent publishing."""

from penstock.errors.root import BadParameter, Conflict, Invalid, NotFound, PenstockError, Unavailable


class BadProducerHeaders(BadParameter):
    """The headers that say who publishes are not all there, or malformed."""

    code = "bad-producer-headers"
    message = "header {parameter} {said}; allowed: {allowed}"
    hint = "Producer-Group, Producer-Epoch and Producer-Sequence go together, or none of them is there."


class PartitionRequired(Invalid):
    """Idempotent publishing goes to a partition, never to an event type as a whole."""

    code = "partition-required"
    message = "who publishes idempotently names the partition: POST /event-types/{event_type}/partitions/.../events"

    event_type: str | None


class ProducerUnsafe(PenstockError):
    """It is not safe to go on publishing with this producer in this partition: close it, and make another."""

    code = "producer-unsafe"
    hint = "Close this producer and make another one, which takes over with an epoch of its own."

    producer_group: str
    partition: int
    received: int | None
    """The sequence number of the request."""
    current_epoch: int | None
    next_sequence: int | None
    """The number that the hub expects next; None if unknown."""
    committed: bool | None
    """Whether all of the batch is stored; None if unknown."""
    ranges: list[dict[str, int]] | None
    """Offsets of the events of the batch that are stored."""


class ProducerFenced(ProducerUnsafe):
    """A producer with a higher epoch has taken over."""

    code = "producer-fenced"
    message = "{producer_group!r} publishes to partition {partition} with epoch {current_epoch} by now"


class SequenceGap(ProducerUnsafe):
    """The batch does not follow the last event."""

    code = "sequence-gap"
    message = "{producer_group!r} goes on with number {expected} in partition {partition}, not with {received}"

    expected: int


class SequenceOverlap(ProducerUnsafe):
    """The beginning of the batch is stored, and the rest is not."""

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
    """There is nothing left to compare the batch with."""

    code = "sequence-too-old"
    message = (
        "number {received} of {producer_group!r} in partition {partition} is so old that what was stored under it is "
        "not known any more"
    )


class PayloadMismatch(ProducerUnsafe):
    """Other events are stored under the same numbers."""

    code = "payload-mismatch"
    message = "another event of {producer_group!r} is stored under number {differs_at} in partition {partition}"
    hint = (
        "Two producers with one group and one epoch do this, or one that numbers other events again. Close this "
        "producer and make another one, which takes over with an epoch of its own."
    )

    differs_at: int
    """The sequence number of the first event that differs."""


class ProducerStateExpired(ProducerUnsafe):
    """What was known of the producer is forgotten."""

    code = "producer-state-expired"
    message = "{producer_group!r} has expired in partition {partition}: it was not heard of for too long, or deleted"
    hint = "Close this producer and make another one, which claims the next epoch."


class ServerStateRegressed(ProducerUnsafe):
    """The hub has lost events that it had acknowledged, as after a backup was put back."""

    code = "server-state-regressed"
    message = (
        "the hub knows {producer_group!r} in partition {partition} up to number {expected} only, and had acknowledged "
        "{missing} events from there on: they are lost"
    )
    hint = (
        "Close this producer, find out what the hub was put back to, and publish the lost events again with another "
        "producer."
    )

    expected: int
    """The sequence number of the first lost event."""
    missing: int
    """Number of lost events."""


class DeadlinePassed(Unavailable):
    """A batch was not begun in the time that its producer gave the hub; nothing of it was done."""

    code = "deadline-passed"
    message = "the batch was not begun before its deadline"


class RetriesExhausted(Unavailable):
    """A batch could not be published in the time, or with the attempts, that it had."""

    code = "retries-exhausted"
    message = (
        "the batch for partition {partition} could not be published (attempts: {attempts}, outcome: {outcome}): "
        "{reason}"
    )
    retryable = False

    partition: int
    attempts: int
    reason: str


class PublishCancelled(PenstockError):
    """Publishing was cancelled."""

    code = "publish-cancelled"
    message = "publishing to partition {partition} was cancelled; the outcome is {outcome}"

    partition: int


class AlreadyPublished(Conflict):
    """What was published once is handed in again."""

    code = "already-published"
    message = "this was published to partition {partition} already, with number {sequence}"
    hint = "Make a new Event, or a new batch, for each time that something is to be published."

    partition: int
    sequence: int


class ReplayDiffers(Conflict):
    """What is published again is not what was, before."""

    code = "replay-differs"
    message = "this is not what {producer_group!r} has published to {event_type!r}, partition {partition}: {reason}"
    hint = (
        "Another series of events, or another file, needs a producer group of its own, which nothing else uses. One "
        "whose group was claimed or forgotten, or whose event type has got more partitions, cannot be gone on with: "
        "see what is stored, and publish the rest under another group."
    )

    event_type: str
    partition: int
    producer_group: str
    reason: str
    event: int | None
    """Number of the event in the series, from 1; None if the whole series differs."""


class ClaimRefused(Conflict):
    """An epoch cannot be had."""

    code = "claim-refused"
    message = "{producer_group!r} is at {stands} in partition {partition}: {wanted} cannot be had"
    hint = 'The epoch "next" takes over from whoever has the current one.'

    producer_group: str
    partition: int
    current_epoch: int | None
    next_sequence: int | None
    wanted: str
    """The epoch that was asked for."""


class EpochExhausted(Conflict):
    """There is no epoch after the current one."""

    code = "epoch-exhausted"
    message = "{producer_group!r} has come to the last epoch there is in partition {partition}, {current_epoch}"
    hint = "Go on with another producer group."

    producer_group: str
    partition: int
    current_epoch: int
    next_sequence: int | None


class ProducerNotFound(NotFound):
    """Nobody has published with that producer group."""

    code = "producer-not-found"
    message = "nobody has published to {event_type!r}, partition {partition}, as {producer_group!r}"

    event_type: str
    partition: int
    producer_group: str


class TooManyProducers(PenstockError):
    """The partition has as many producer groups as it may."""

    code = "too-many-producers"
    message = "partition {partition} has {limit} producer groups already"
    hint = "Use few groups with names that last, or forget those that are done: DELETE .../producers/{group}."

    event_type: str
    partition: int
    limit: int
