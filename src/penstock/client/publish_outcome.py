"""What an attempt to publish idempotently has come to, by the error that it ended with."""

from penstock.client.lane import Lane, Numbered, Operation
from penstock.client.refusal import is_undone
from penstock.errors import (
    MalformedAnswer,
    OutcomeUnknown,
    PenstockError,
    ProducerUnsafe,
    RetriesExhausted,
    SequenceGap,
    ServerError,
    ServerStateRegressed,
    TooManyProducers,
)
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
