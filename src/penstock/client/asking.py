"""What an idempotent producer asks the hub, all of which can be asked again without harm."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec

from penstock.client.event_types import hub_address
from penstock.client.exchange import Answer, Exchange, Request, fetch, malformed
from penstock.client.exchange import address as with_query
from penstock.client.lane import Lane, Numbered, Operation
from penstock.client.patience import patiently
from penstock.client.publish_outcome import is_transient
from penstock.client.refusal import refusal
from penstock.errors import ProducerNotFound
from penstock.wire import producers as wire

_ACCEPTED: Final = {"accept": "application/json"}
_JSON: Final = {"content-type": "application/json", **_ACCEPTED}
Shape = TypeVar("Shape")


class Asking:
    """Asks about the producers of one event type, as long as an operation lasts."""

    def __init__(self, url: str, event_type: str, attempt_timeout: float, clock: Callable[[], float]) -> None:
        self._url = url
        self._event_type = event_type
        self._attempt_timeout = attempt_timeout
        self._clock = clock

    def claim(
        self, lane: Lane, group: str | None, wanted: Mapping[str, Any], operation: Operation
    ) -> Exchange[wire.Shown]:
        """Claim an epoch; of a new group, where none is named.

        Raises:
            ClaimRefused, EpochExhausted: it cannot be had.
        """
        url = self.address(lane, "producers") if group is None else self.address(lane, "producers", group)
        body = msgspec.json.encode({**wanted, "claim_id": lane.claim_id})
        method = "POST" if group is None else "PUT"
        return (
            yield from self._asked(Request(method=method, url=url, headers=_JSON, body=body), operation, wire.Shown)
        )

    def standing(self, lane: Lane, operation: Operation) -> Exchange[wire.Shown | None]:
        """Ask how far a producer has come; None: the hub knows nothing of it."""
        request = Request(method="GET", url=self.address(lane, "producers", lane.group), headers=_ACCEPTED)
        try:
            return (yield from self._asked(request, operation, wire.Shown))
        except ProducerNotFound:
            return None

    def find(self, lane: Lane, numbered: Numbered, operation: Operation) -> Exchange[wire.Found]:
        """Ask whether a batch is stored."""
        query = [("epoch", numbered.epoch), ("count", len(numbered.events))]
        at = self.address(lane, "producers", lane.group, "sequences", str(numbered.first))
        request = Request(method="GET", url=with_query(at, query=query), headers=_ACCEPTED)
        return (yield from self._asked(request, operation, wire.Found))

    def _asked(self, request: Request, operation: Operation, shape: type[Shape]) -> Exchange[Shape]:
        """Ask what can be asked again without harm."""

        def attempt() -> Exchange[Shape]:
            operation.check()
            answer = yield from fetch(replace(request, timeout=operation.within(self._attempt_timeout)))
            if answer.status not in (HTTPStatus.OK, HTTPStatus.CREATED):
                raise refusal(answer)
            return decoded(answer, shape)

        left = operation.deadline - self._clock()
        return (yield from patiently(attempt, is_transient, left, self._clock))

    def address(self, lane: Lane, *path: str) -> str:
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
        raise malformed(answer.url, f"it gave no {shape.__name__} but {answer.body[:200]!r}") from error
