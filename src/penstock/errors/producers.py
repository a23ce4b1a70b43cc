"""Errors of idempotent publishing."""

from typing import ClassVar

from penstock.errors.root import Case, Conflict, NotFound, PenstockError, Unavailable

_NEW_PRODUCER = "Close this producer and create a new one, which claims the next epoch."


class ProducerUnsafe(PenstockError):
    """This producer cannot safely continue in this partition."""

    code = "producer-unsafe"
    hint = _NEW_PRODUCER

    producer_group: str
    partition: int
    received: int | None
    """The sequence number of the request."""
    current_epoch: int | None
    next_sequence: int | None
    """The sequence number that the hub expects next; None if unknown."""
    committed: bool | None
    """Whether all of the batch is stored; None if unknown."""
    ranges: list[dict[str, int]] | None
    """Offsets of the events of the batch that are stored."""


class ProducerFenced(ProducerUnsafe):
    """A producer with a higher epoch has taken over: this one is fenced."""

    code = "producer-fenced"
    message = "producer group {producer_group!r} was fenced in partition {partition}: its epoch is now {current_epoch}"
    hint = (
        "Stop, since another instance publishes, or create a new producer, which claims the next epoch. `committed` "
        "says whether the batch is stored."
    )


class OutOfSequence(ProducerUnsafe):
    """The batch is not the next one: it leaves a gap, overlaps stored events, or is too old to be compared."""

    code = "out-of-sequence"
    cases: ClassVar = {
        "sequence-gap": Case(
            "partition {partition} expects sequence number {expected} of producer group {producer_group!r}, not "
            "{received}",
            "Send the missing batches first, from `expected`. Or close this producer and create a new one.",
        ),
        "sequence-overlap": Case(
            "part of the batch is stored: partition {partition} expects sequence number {next_sequence} of producer "
            "group {producer_group!r}",
            "Close this producer and create a new one, or append the rest: over HTTP, repeat the batch with the header "
            "Producer-Overlap: trim.",
        ),
        "sequence-too-old": Case(
            "sequence number {received} of producer group {producer_group!r} in partition {partition} is too old: the "
            "hub no longer knows which events it had",
            "Look for the events in the feed. To continue, use `next_sequence`, or create a new producer.",
        ),
    }

    expected: int | None
    """The sequence number of the next batch, in `sequence-gap`."""


class PayloadMismatch(ProducerUnsafe):
    """Other events are stored under the same sequence numbers."""

    code = "payload-mismatch"
    message = (
        "another event of producer group {producer_group!r} is stored under sequence number {differs_at} in partition "
        "{partition}"
    )
    hint = "Two producers use one group and epoch, or a producer changed the events of a batch. " + _NEW_PRODUCER

    differs_at: int
    """The sequence number of the first event that differs."""


class ProducerStateExpired(ProducerUnsafe):
    """The hub has deleted the state of this producer."""

    code = "producer-state-expired"
    message = (
        "producer group {producer_group!r} has expired in partition {partition}: it was unused for too long, or deleted"
    )
    hint = "Close this producer and create a new one. Check whether the last events are stored before you repeat them."


class ServerStateRegressed(ProducerUnsafe):
    """The hub has lost acknowledged events, for instance because a backup was restored."""

    code = "server-state-regressed"
    message = (
        "the hub has lost {missing} acknowledged events of producer group {producer_group!r} in partition {partition}, "
        "from sequence number {expected}"
    )
    hint = (
        "Close this producer, find out to which state the hub was restored, and publish the lost events with a new "
        "producer."
    )

    expected: int
    """The sequence number of the first lost event."""
    missing: int
    """Number of lost events."""


class RetriesExhausted(Unavailable):
    """A batch could not be published within its timeout or its number of attempts."""

    code = "retries-exhausted"
    message = (
        "the batch for partition {partition} could not be published (attempts: {attempts}, outcome: {outcome}): "
        "{reason}"
    )
    hint = "Send the same batch again, or another one: if the outcome is unknown, the producer finds out first."
    retryable = False

    partition: int
    attempts: int
    reason: str


class PublishCancelled(PenstockError):
    """Publishing was cancelled."""

    code = "publish-cancelled"
    message = "publishing to partition {partition} was cancelled; the outcome is {outcome}"
    hint = "If the outcome is unknown, send the same batch again, or call `resolve`: the producer finds out."

    partition: int


class AlreadyUsed(Conflict):
    """An object that can be used once was used again: an event, a batch or a processor."""

    code = "already-used"
    cases: ClassVar = {
        "already-published": Case(
            "this was published to partition {partition} before, with sequence number {sequence}",
            "Create a new Event, or a new batch, for each publish.",
        ),
        "already-started": Case(
            "{processor} was started or stopped before; a processor runs once",
            "Create another processor with the same name and checkpoints: it continues where this one stopped.",
        ),
    }

    partition: int | None
    """The partition in `already-published`."""
    sequence: int | None
    """The sequence number in `already-published`."""
    processor: str | None
    """The processor in `already-started`."""


class ReplayDiffers(Conflict):
    """A repeated series of events differs from its first publication."""

    code = "replay-differs"
    message = (
        "the replay differs from the events that {producer_group!r} has published to {event_type!r}, partition "
        "{partition}: {reason}"
    )
    hint = (
        "Use a separate producer group for each series of events or file. A series cannot continue after its group was "
        "claimed or deleted, or its event type got more partitions: see what is stored, and publish the rest with "
        "another group."
    )

    event_type: str
    partition: int
    producer_group: str
    reason: str
    """What differs."""
    event: int | None
    """Number of the event in the series, from 1; None if the whole series differs."""


class ClaimRefused(Conflict):
    """The requested epoch cannot be claimed."""

    code = "claim-refused"
    message = "producer group {producer_group!r} has {epoch_state} in partition {partition}: {wanted} cannot be claimed"
    hint = 'Claim "next" to take over from the producer with the current epoch.'

    producer_group: str
    partition: int
    current_epoch: int | None
    next_sequence: int | None
    wanted: str
    """The requested epoch."""


class EpochExhausted(Conflict):
    """The producer group has used the highest possible epoch."""

    code = "epoch-exhausted"
    message = "producer group {producer_group!r} has the last possible epoch in partition {partition}, {current_epoch}"
    hint = "Continue with another producer group."

    producer_group: str
    partition: int
    current_epoch: int
    next_sequence: int | None


class ProducerNotFound(NotFound):
    """Nothing was published with this producer group."""

    code = "producer-not-found"
    message = "nothing was published to {event_type!r}, partition {partition}, with producer group {producer_group!r}"
    hint = "Correct the group or the partition. Before the first publish there is nothing to do."

    event_type: str
    partition: int
    producer_group: str


class LimitReached(PenstockError):
    """There are as many producer groups, uploads, parked streams or members as there may be."""

    code = "limit-reached"
    cases: ClassVar = {
        "too-many-producers": Case(
            "partition {partition} of {event_type!r} has {limit} producer groups, the maximum",
            "Use few groups with lasting names, or delete those no longer used: DELETE .../producers/{group}.",
        ),
        "too-many-uploads": Case(
            "{event_type!r} has {limit} open uploads, the maximum",
            "Publish or delete open uploads (DELETE .../uploads/{upload}); they expire after a day.",
        ),
        "too-many-parked": Case(
            "the consumer group {group!r} has {limit} parked streams, the maximum",
            "Repair what they failed for, and retry or skip them: `penstock groups parked list {group}`.",
        ),
        "too-many-members": Case(
            "the consumer group {group!r} has {limit} members, the maximum",
            "Run fewer processors of this name. One that was killed counts until its lease ends.",
        ),
    }

    event_type: str | None
    """None in `too-many-parked` and `too-many-members`."""
    partition: int | None
    """The partition in `too-many-producers`."""
    group: str | None
    """The consumer group in `too-many-parked` and `too-many-members`."""
    limit: int
