"""What an attempt to publish idempotently has come to, by the error that it ended with."""

from penstock.client.lane import Lane, Numbered, Operation
from penstock.core.producers import Range
from penstock.errors import (
    MalformedAnswer,
    OutcomeUnknown,
    PenstockError,
    ProducerUnsafe,
    RetriesExhausted,
    SequenceGap,
    SequenceTooOld,
    ServerError,
    ServerStateRegressed,
    TooManyProducers,
)
from penstock.wire import producers as wire
from penstock.wire.refusal import is_undone
from penstock.wire.retry import is_passing


def is_transient(error: PenstockError) -> bool:
    """Say whether the same request, sent again unchanged, may succeed."""
    return is_passing(error) or isinstance(error, MalformedAnswer | OutcomeUnknown | TooManyProducers)


def may_be_stored(error: PenstockError) -> bool:
    """Say whether the batch that failed with *error* may be stored all the same."""
    return is_transient(error) and not is_undone(error) and not isinstance(error, TooManyProducers)


def regressed(lane: Lane, numbered: Numbered, error: ProducerUnsafe) -> ServerStateRegressed | None:
    """Return the error that *error* stands for where the hub knows less than it has acknowledged."""
    if not isinstance(error, SequenceGap):
        return None
    expected = error.fields["expected"]
    missing = (numbered.first - expected) % lane.modulus
    if not 0 < missing < lane.modulus / 2:
        return None
    return lost(lane, numbered, expected, missing)


def lost(lane: Lane, numbered: Numbered, expected: int, missing: int) -> ServerStateRegressed:
    """Return the error that tells of *missing* events, from the number *expected* on, before *numbered*."""
    return ServerStateRegressed(
        producer_group=lane.group,
        partition=lane.partition,
        current_epoch=numbered.epoch,
        expected=expected,
        received=numbered.first,
        missing=missing,
        outcome="not_stored",
    )


def told(error: PenstockError, lane: Lane, operation: Operation) -> PenstockError:
    """Say in *error* where it was, and whether anything may be stored all the same."""
    error.fields["partition"] = lane.partition
    error.fields["outcome"] = lane.outcome(operation)
    return error


def exhausted(reason: PenstockError | str, lane: Lane, operation: Operation) -> RetriesExhausted:
    """Return the error of a call that has failed too often, or for too long."""
    fields = {"partition": lane.partition, "attempts": operation.attempts, "outcome": lane.outcome(operation)}
    return RetriesExhausted(**fields, reason=str(reason))


def status(error: PenstockError) -> int | None:
    """Return the status of an answer that was none of ours."""
    return error.fields.get("status") if isinstance(error, ServerError) else None


def poisoned(
    lane: Lane, numbered: Numbered, error: ProducerUnsafe, operation: Operation, *, is_open: bool
) -> ProducerUnsafe:
    """Let nothing more be published, since *error* was told of a batch; return what is to be raised.

    Where the hub does not know what became of it, *is_open* says whether an attempt before may have stored it. Of what
    the *operation* is to publish, some may have been found to be stored before, and not be in the batch.
    """
    found = regressed(lane, numbered, error) or error
    is_unknown = error.fields.get("committed", False) is None and (is_open or isinstance(error, SequenceTooOld))
    is_in_part = bool(error.fields.get("ranges")) or lane.has_settled(operation)
    found.fields["outcome"] = "unknown" if is_unknown or is_in_part else "not_stored"
    if not is_unknown:
        lane.clear()
    return lane.poison(found)


def ranges_in(found: wire.Result) -> list[Range]:
    """Return where the events of a batch are."""
    return [Range(each.first, each.last) for each in ([found.offsets] if found.offsets else found.ranges)]


def ranges_told(error: ProducerUnsafe) -> list[Range]:
    """Return where what is stored of a batch is, as *error* says."""
    return [Range(**each) for each in error.fields["ranges"]]
