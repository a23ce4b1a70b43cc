"""Says what becomes of events that a consumer cannot process: when they are sent one by one, when they are given up.

The mechanism is Nakadi's (digest of its contract, 5.11), per partition: when a stream ends without having committed
what it was sent, its partition counts that. Where the count has come to the limit, the batch that failed is sent event
by event, to find the guilty one; where it has come there again at one event, that is given up.
"""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, get_args

from penstock.core.choices import Unprocessable
from penstock.core.fields import Definition

SEND_COUNT: Final = "nakadi.zalando.org/subscription-max-event-send-count"
POLICY: Final = "nakadi.zalando.org/subscription-unprocessable-event-policy"
PARK_AFTER: Final = "penstock/park-after-attempts"
OURS: Final = "penstock/"
SEND_COUNTS: Final = range(2, 11)


class Retrying(NamedTuple):
    """What becomes of an event that a consumer cannot process."""

    send_count: int
    """How often it is sent."""
    policy: Unprocessable | Literal["PARK_KEY"]
    """What becomes of it then."""


class Start(NamedTuple):
    """How a partition is sent to a stream that begins with it."""

    failed: int
    single_until: int
    """Events below this offset are sent one by one."""
    gives_up: bool
    """Whether the next event is given up first."""


def retrying_of(definition: Definition) -> Retrying | None:
    """Return what becomes of a subscription's events that cannot be processed; None: they are sent again and again.

    >>> retrying_of({"annotations": {SEND_COUNT: "3", POLICY: "SKIP_EVENT"}})
    Retrying(send_count=3, policy='SKIP_EVENT')
    >>> retrying_of({"annotations": {PARK_AFTER: "5"}})
    Retrying(send_count=5, policy='PARK_KEY')
    """
    annotations = definition["annotations"]
    if SEND_COUNT in annotations:
        return Retrying(int(annotations[SEND_COUNT]), annotations[POLICY])
    return Retrying(int(annotations[PARK_AFTER]), "PARK_KEY") if PARK_AFTER in annotations else None


def start(failed: int, offset: int, single_until: int, *, limit: int, batch_limit: int) -> Start:
    """Return how a partition is sent on from *offset*, having *failed* so often in a row of *limit*.

    >>> start(2, 0, 0, limit=3, batch_limit=10)
    Start(failed=2, single_until=0, gives_up=False)
    >>> start(3, 0, 0, limit=3, batch_limit=10)
    Start(failed=0, single_until=10, gives_up=False)
    >>> start(3, 4, 10, limit=3, batch_limit=10)
    Start(failed=0, single_until=10, gives_up=True)
    """
    if failed < limit:
        return Start(failed, single_until, gives_up=False)
    if offset < single_until:
        return Start(0, single_until, gives_up=True)
    return Start(0, offset + batch_limit, gives_up=False)


def wrong_policy(annotations: Definition) -> Iterator[tuple[str, str]]:
    """Yield each field of *annotations* that says something wrong of this, and what is wrong with it."""
    count, policy = annotations.get(SEND_COUNT), annotations.get(POLICY)
    if (count is None) != (policy is None):
        missing, there = (SEND_COUNT, POLICY) if count is None else (POLICY, SEND_COUNT)
        yield f"annotations[{missing}]", f"must be there, since {there} is"
    if PARK_AFTER in annotations and SEND_COUNT in annotations:
        yield f"annotations[{PARK_AFTER}]", f"cannot be there beside {SEND_COUNT}: they say two things of one event"
    for name in (SEND_COUNT, PARK_AFTER):
        if annotations.get(name) is not None and annotations[name] not in map(str, SEND_COUNTS):
            yield f"annotations[{name}]", f"must be a whole number from {SEND_COUNTS[0]} to {SEND_COUNTS[-1]}"
    for name in annotations:
        if name.startswith(OURS) and name != PARK_AFTER:
            yield f"annotations[{name}]", f"is not known; there is {PARK_AFTER}"
    if policy is not None and policy not in get_args(Unprocessable):
        yield f"annotations[{POLICY}]", f"must be one of {', '.join(get_args(Unprocessable))}"
