"""What an idempotent producer asks the hub, all of which can be asked again without harm."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec

from penstock.client.event_types import hub_address
from penstock.client.lane import Lane, Numbered, Operation
from penstock.client.producer_options import RetryPolicy
from penstock.client.publish_outcome import is_transient
from penstock.errors import ProducerNotFound
from penstock.wire import producers as wire
from penstock.wire.exchange import Answer, Exchange, Request, fetch, malformed
from penstock.wire.patience import patiently
from penstock.wire.refusal import refusal
from penstock.wire.zeroeventhub import NDJSON

_ACCEPTED: Final = {"accept": "application/json"}
_JSON: Final = {"content-type": "application/json", **_ACCEPTED}
Shape = TypeVar("Shape")


class _EventType(msgspec.Struct):
    category: str = "undefined"


class Asking:
    """Asks about the producers of one event type, as long as an operation lasts, and as often as *retry* says."""

    def __init__(
        self, url: str, event_type: str, retry: RetryPolicy, attempt_timeout: float, clock: Callable[[], float]
    ) -> None:
        self._url = url
        self._event_type = event_type
        self._retry = retry
        self._attempt_timeout = attempt_timeout
        self._clock = clock

    def claim(
        self, lane: Lane, group: str | None, wanted: Mapping[str, Any], operation: Operation
    ) -> Exchange[wire.Shown]:
        """Claim an epoch; of a new group, where none is named.

        Raises:
            ClaimRefused, EpochExhausted: it cannot be had.
        """
        url = self._address(lane, "producers") if group is None else self._address(lane, "producers", group)
        body = msgspec.json.encode({**wanted, "claim_id": lane.claim_id})
        method = "POST" if group is None else "PUT"
        return (
            yield from self._asked(Request(method=method, url=url, headers=_JSON, body=body), operation, wire.Shown)
        )

    def standing(self, lane: Lane, operation: Operation) -> Exchange[wire.Shown | None]:
        """Ask how far a producer has come; None: the hub knows nothing of it."""
        request = Request(method="GET", url=self._address(lane, "producers", lane.group), headers=_ACCEPTED)
        try:
            return (yield from self._asked(request, operation, wire.Shown))
        except ProducerNotFound:
            return None

    def category(self, operation: Operation) -> Exchange[str]:
        """Return the category of the event type.

        Raises:
            EventTypeNotFound: there is none such.
        """
        request = Request(method="GET", url=hub_address(self._url, "event-types", self._event_type), headers=_ACCEPTED)
        return (yield from self._asked(request, operation, _EventType)).category

    def batch(self, lane: Lane, numbered: Numbered, operation: Operation) -> Request:
        """Return the request that publishes a batch, the same each time."""
        numbers = {wire.GROUP: lane.group, wire.EPOCH: str(numbered.epoch), wire.SEQUENCE: str(numbered.first)}
        return Request(
            method="POST",
            url=self._address(lane, "events"),
            headers={"content-type": NDJSON, **_ACCEPTED, **numbers},
            body=numbered.body,
            timeout=operation.within(self._attempt_timeout),
        )

    def repeat(self, lane: Lane, numbered: Numbered, operation: Operation) -> Exchange[wire.Result]:
        """Publish a batch again, to see what has become of it.

        Raises:
            ProducerUnsafe: its numbers are not given to it any more; says whether it is stored.
        """
        return (yield from self._asked(self.batch(lane, numbered, operation), operation, wire.Result))

    def _asked(self, request: Request, operation: Operation, shape: type[Shape]) -> Exchange[Shape]:
        """Ask what can be asked again without harm."""

        def attempt() -> Exchange[Shape]:
            operation.check()
            answer = yield from fetch(replace(request, timeout=operation.within(self._attempt_timeout)))
            if answer.status not in (HTTPStatus.OK, HTTPStatus.CREATED):
                raise refusal(answer)
            return decoded(answer, shape)

        return (
            yield from patiently(
                attempt, is_transient, operation.deadline - self._clock(), self._clock,
                delay_max=self._retry.max_delay, attempts_max=self._retry.max_attempts,
            )
        )  # fmt: skip

    def _address(self, lane: Lane, *path: str) -> str:
        """Return the address of something that belongs to the partition."""
        return hub_address(self._url, "event-types", self._event_type, "partitions", str(lane.partition), *path)


def decoded(answer: Answer, shape: type[Shape]) -> Shape:
    """Return what an answer says.

    Raises:
        MalformedAnswer: it is no such thing.
    """
    try:
        return msgspec.json.decode(answer.body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise malformed(answer.url, f"it answered {answer.body[:200]!r} to what was asked") from error
