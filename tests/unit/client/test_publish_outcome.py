"""Outcome of a publishing attempt: may it be repeated, may its events be stored, has the hub lost events."""

import pytest

from penstock.client.log.publishing import Event
from penstock.client.producers.options import PartitionPublishingOptions
from penstock.client.producers.partition_state import (
    PartitionState,
    SequencedBatch,
    find_regression,
    is_retryable,
    may_be_stored,
)
from penstock.errors import (
    ConnectionLost,
    DatabaseUnavailable,
    Forbidden,
    HubUnavailable,
    InvalidEvent,
    LimitReached,
    MalformedAnswer,
    OutcomeUnknown,
    OutOfSequence,
    PayloadMismatch,
    PenstockError,
    ProducerUnsafe,
    ServerError,
    Unreachable,
    WrongAddress,
)

ERRORS: dict[str, tuple[PenstockError, bool, bool]] = {
    "nothing was sent": (Unreachable(url="u", reason="r"), True, False),
    "the answer was lost": (ConnectionLost(url="u", reason="r"), True, True),
    "the answer is none": (MalformedAnswer(url="u", reason="r"), True, True),
    "the hub itself does not know": (OutcomeUnknown(reason="r"), True, True),
    "the hub says that its database is away": (DatabaseUnavailable(reason="r", retry_after=1), True, False),
    "the hub stops": (HubUnavailable.of("hub-stopped", retry_after=1), True, False),
    "the hub was too late": (HubUnavailable.of("deadline-passed", retry_after=1), True, False),
    "there are too many producers": (LimitReached.of("too-many-producers", limit=1), True, False),
    "a 500": (ServerError(status=500, url="u", body=""), True, True),
    "a 502": (ServerError(status=502, url="u", body=""), True, True),
    "a 503 of somebody who does not say when": (ServerError(status=503, url="u", body=""), True, True),
    "a 503 of somebody who says when": (ServerError(status=503, url="u", body="", retry_after=1), True, True),
    "a 429": (ServerError(status=429, url="u", body=""), True, True),
    "a 408": (ServerError(status=408, url="u", body=""), True, True),
    "a 404 of something else": (WrongAddress(status=404, url="u", body="", wanted="hub"), False, False),
    "a 401": (ServerError(status=401, url="u", body=""), False, False),
    "an invalid event": (InvalidEvent(line=1, reason="r"), False, False),
    "forbidden": (Forbidden("no"), False, False),
}


@pytest.mark.parametrize(("error", "transient", "stored"), ERRORS.values(), ids=ERRORS)
def test_error_says_if_an_attempt_may_be_repeated_and_its_events_stored(
    error: PenstockError, transient: bool, stored: bool
) -> None:
    assert (is_retryable(error), may_be_stored(error)) == (transient, stored)


def state() -> PartitionState:
    found = PartitionState(3, PartitionPublishingOptions())
    found.group, found.epoch, found.modulus = "g", 2, 16
    return found


GAPS: dict[str, tuple[ProducerUnsafe, int, int | None]] = {
    "the hub is behind": (OutOfSequence.of("sequence-gap", expected=3), 5, 2),
    "the hub is behind across the end of a round": (OutOfSequence.of("sequence-gap", expected=14), 2, 4),
    "the hub knows nothing": (OutOfSequence.of("sequence-gap", expected=0), 5, 5),
    "we are behind": (OutOfSequence.of("sequence-gap", expected=6), 5, None),
    "we are behind across the end of a round": (OutOfSequence.of("sequence-gap", expected=1), 15, None),
    "it is no gap": (PayloadMismatch(), 5, None),
}


@pytest.mark.parametrize(("error", "first", "missing"), GAPS.values(), ids=GAPS)
def test_hub_behind_its_own_acknowledgements_has_lost_events(
    error: ProducerUnsafe, first: int, missing: int | None
) -> None:
    batch = SequencedBatch(2, first, [Event({})], b"")
    found = find_regression(state(), batch, error)

    assert (None if found is None else found.missing) == missing
    if found is not None:
        numbers = {"current_epoch": 2, "expected": error.expected, "received": first, "missing": missing}
        assert found.fields == {"producer_group": "g", "partition": 3, **numbers, "outcome": "not_stored"}
