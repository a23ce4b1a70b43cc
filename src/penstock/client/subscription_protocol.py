"""A hub's subscriptions, from afar: the protocol side of those who look after them."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec

from penstock.client.event_types import EventTypes
from penstock.client.json_exchange import JsonExchange, decoded
from penstock.client.subscription import (
    ParkedKey,
    ParkedKeyDetails,
    SubscribedPartition,
    Subscription,
    SubscriptionCursor,
    WireCursor,
    WireCursors,
    WireParked,
    WireParkedKeys,
    WireStats,
    as_wire,
    cursors_of,
    parked_details_of,
    parked_of,
    partitions_of,
    subscription_of,
)
from penstock.client.subscription_reset import checked_resets, goals, moves
from penstock.errors import BadCursor, ParkedNotFound, SubscriptionNotFound
from penstock.wire.exchange import Answer, Exchange, Request, address, malformed
from penstock.wire.groups import PositionReset, ResetPosition, check_reason
from penstock.wire.nakadi import parse_offset
from penstock.wire.refusal import is_undone
from penstock.wire.retry import is_passing

SUBSCRIPTIONS_MAX: Final = 1_000
"""How many are asked for at one time."""
RESET_S: Final = 30.0
"""So long a hub may take to have the streams end that are in the way of a reset."""
NEW: Final = "new"
"""What a list begins after."""
BEGIN: Final = "BEGIN"
"""The offset that is before all that is there."""
_ACCEPTED: Final = {"accept": "application/json"}
_JSON: Final = {"content-type": "application/json", **_ACCEPTED}
_SHOWN_ALONE: Final = ("id", "created_at", "updated_at", "status")
Shape = TypeVar("Shape")
Made = TypeVar("Made")
GivenCursors: TypeAlias = Iterable[SubscriptionCursor | Mapping[str, Any]]


def subscription_address(url: str, id: str, *path: str) -> str:
    """Return where *path* is of the subscription of that id.

    Raises:
        SubscriptionNotFound: none can be called so, and a hub would take it for another path.
    """
    if id in ("", ".", ".."):
        raise SubscriptionNotFound(subscription=id)
    return address(url, "subscriptions", id, *path)


class SubscriptionProtocol:
    """What can be asked of the subscriptions of the hub at *url*."""

    def __init__(self, url: str, event_types: EventTypes, *, patience: float, clock: Callable[[], float]) -> None:
        self._url = url
        self._event_types = event_types
        self._json = JsonExchange(patience, clock)

    def create(
        self, event_types: Iterable[str], initial_cursors: GivenCursors, members: Mapping[str, Any]
    ) -> Exchange[tuple[Subscription, bool]]:
        """Create a subscription, or find the one that there is; tell which."""
        given = {name: value for name, value in members.items() if value is not None}
        given["event_types"] = _names(event_types)
        if cursors := as_wire(initial_cursors):
            given = {"read_from": "cursors"} | given | {"initial_cursors": cursors}
        url = address(self._url, "subscriptions")
        request = Request(method="POST", url=url, headers=_JSON, body=msgspec.json.encode(given))
        answer = yield from self._json.done(request, is_passing, HTTPStatus.OK, HTTPStatus.CREATED)
        return _made(answer, dict[str, Any], subscription_of), answer.status == HTTPStatus.CREATED

    def all(
        self, owning_application: str | None, event_types: Iterable[str], reader: str | None, *, status: bool
    ) -> Exchange[list[Subscription]]:
        """Return all subscriptions that are such, the newest first; all pages are asked for."""
        asked: list[tuple[str, object]] = [("event_type", each) for each in _names(event_types)]
        given = {"owning_application": owning_application, "reader": reader, "show_status": "true" if status else None}
        asked += [(name, value) for name, value in given.items() if value is not None]
        found: list[Subscription] = []
        after = NEW
        while True:
            paging = [("limit", SUBSCRIPTIONS_MAX), ("token", after)]
            answer = yield from self._got(address(self._url, "subscriptions", query=[*asked, *paging]))
            page = _made(answer, _Page, lambda page: (list(map(subscription_of, page.items)), page.links))
            found += page[0]
            if not (page[0] and "next" in page[1]):
                return sorted(found, key=lambda each: each.created_at, reverse=True)
            after = page[0][-1].id

    def show(self, id: str) -> Exchange[Subscription]:
        """Return one subscription."""
        answer = yield from self._got(subscription_address(self._url, id))
        return _made(answer, dict[str, Any], subscription_of)

    def update(self, id: str, changes: Mapping[str, Any]) -> Exchange[None]:
        """Let members of a subscription be others; what is not said stays."""
        url = subscription_address(self._url, id)
        shown: dict[str, Any] = decoded((yield from self._got(url)), dict[str, Any])
        stays = {name: value for name, value in shown.items() if name not in _SHOWN_ALONE}
        body = msgspec.json.encode(stays | {name: value for name, value in changes.items() if value is not None})
        yield from self._json.done(Request(method="PUT", url=url, headers=_JSON, body=body), is_passing, 204)

    def delete(self, id: str) -> Exchange[None]:
        """Delete a subscription."""
        yield from self._json.done(Request(method="DELETE", url=subscription_address(self._url, id)), is_undone, 204)

    def stats(self, id: str, *, lag: bool) -> Exchange[list[SubscribedPartition]]:
        """Return who has each partition, and how far behind it is."""
        url = address(subscription_address(self._url, id, "stats"), query=[("show_time_lag", str(lag).lower())])
        return _made((yield from self._got(url)), WireStats, lambda shown: partitions_of(shown.items))

    def cursors(self, id: str) -> Exchange[list[SubscriptionCursor]]:
        """Return how far each partition is committed."""
        answer = yield from self._got(subscription_address(self._url, id, "cursors"))
        return _made(answer, WireCursors, cursors_of)

    def reset(
        self,
        id: str,
        items: Iterable[PositionReset] | None,
        *,
        to: Literal["begin", "end"] | None,
        at: datetime | str | None,
        reason: str | None,
        dry_run: bool,
    ) -> Exchange[list[ResetPosition]]:
        """Move cursors, all or none, once their streams have ended."""
        check_reason(reason)  # Here, too: in a dry run nobody else looks at it.
        time = at.isoformat() if isinstance(at, datetime) else at
        planned = yield from self._moves(id, items, to, time)
        if dry_run or not planned:
            return planned
        cursors = as_wire(
            SubscriptionCursor(each.event_type, each.partition, each.epoch, each.offset) for each in planned
        )
        body = msgspec.json.encode({"items": cursors} | ({} if reason is None else {"reason": reason}))
        url = subscription_address(self._url, id, "cursors")
        request = Request(method="PATCH", url=url, headers=_JSON, body=body, wait=RESET_S)
        yield from self._json.done(request, is_undone, 204)
        return planned

    def parked(self, id: str) -> Exchange[list[ParkedKey]]:
        """Return the parked keys."""
        answer = yield from self._got(subscription_address(self._url, id, "parked"))
        return _made(answer, WireParkedKeys, lambda shown: list(map(parked_of, shown.items)))

    def parked_key(self, id: str, parked_id: str, limit: int) -> Exchange[ParkedKeyDetails]:
        """Return one parked key with up to *limit* of its events."""
        url = address(self._parked(id, parked_id), query=[("limit", limit)])
        return _made((yield from self._got(url)), WireParked, parked_details_of)

    def retry_parked(self, id: str, parked_id: str | None) -> Exchange[int]:
        """Have a parked key, or all, sent again; return how many."""
        if parked_id is not None:
            url = self._parked(id, parked_id, "retry")
            yield from self._json.done(Request(method="POST", url=url, headers=_ACCEPTED), is_undone, 204)
            return 1
        url = subscription_address(self._url, id, "parked", "retry")
        answer = yield from self._json.done(Request(method="POST", url=url, headers=_ACCEPTED), is_undone, 200)
        return _made(answer, _Retried, lambda shown: shown.retried)

    def skip_parked(self, id: str, parked_id: str, reason: str) -> Exchange[None]:
        """Let the events of a parked key wait no longer."""
        body = msgspec.json.encode({"reason": reason})
        url = self._parked(id, parked_id, "skip")
        yield from self._json.done(Request(method="POST", url=url, headers=_JSON, body=body), is_undone, 204)

    def extend_lease(self, id: str, stream_id: str) -> Exchange[None]:
        """Begin anew the time in which a stream has to commit."""
        url = subscription_address(self._url, id, "streams", stream_id, "lease")
        yield from self._json.done(Request(method="POST", url=url, headers=_ACCEPTED), is_passing, 204)

    def _moves(
        self, id: str, items: Iterable[PositionReset] | None, to: str | None, at: str | None
    ) -> Exchange[list[ResetPosition]]:
        shown = yield from self.show(id)
        resets = checked_resets(shown.event_types, items, to, at)
        partitions = {}
        for name in sorted({each.event_type for each in resets}):
            partitions[name] = yield from self._event_types.partitions(name)
        wanted = goals(resets, partitions)
        since = {}
        for name, time in sorted({(each.event_type, each.at) for each in resets if each.at is not None}):
            since[name, time] = yield from self._since(name, time)
        return moves(wanted, since, (yield from self.cursors(id)))

    def _since(self, event_type: str, time: str) -> Exchange[Mapping[int, int]]:
        """Return by partition the first offset that came at *time* or later."""
        answer = yield from self._got(address(self._url, "event-types", event_type, "cursors", query=[("at", time)]))
        return _made(answer, list[WireCursor], _offsets)

    def _parked(self, id: str, parked_id: Any, *path: str) -> str:
        if not (isinstance(parked_id, str) and parked_id.isascii() and parked_id.isdigit()):
            raise ParkedNotFound(subscription=id, parked=parked_id)
        return subscription_address(self._url, id, "parked", parked_id, *path)

    def _got(self, url: str) -> Exchange[Answer]:
        return (yield from self._json.done(Request(method="GET", url=url, headers=_ACCEPTED), is_passing, 200))


def _made(answer: Answer, shape: type[Shape], make: Callable[[Shape], Made]) -> Made:
    """Return what is made of what an answer holds.

    Raises:
        MalformedAnswer: it is nothing of that kind.
    """
    shown = decoded(answer, shape)
    try:
        return make(shown)
    except (ValueError, msgspec.ValidationError, BadCursor) as error:
        raise malformed(answer.url, f"{answer.body[:200]!r} ({error})") from error


class _Page(msgspec.Struct):
    items: list[dict[str, Any]]
    links: dict[str, Any] = msgspec.field(default_factory=dict, name="_links")


class _Retried(msgspec.Struct):
    retried: int


def _names(event_types: Iterable[str]) -> list[str]:
    """Return the names of event types as a list.

    Raises:
        TypeError: one name was given in place of several; it would be taken letter by letter.

    >>> _names("order.placed")
    Traceback (most recent call last):
    TypeError: event types are a list of names, such as ['order.placed'], not one string
    """
    if isinstance(event_types, str):
        raise TypeError(f"event types are a list of names, such as [{event_types!r}], not one string")
    return list(event_types)


def _offsets(rows: Iterable[WireCursor]) -> Mapping[int, int]:
    """Return by partition the offset after each cursor; none where it is before all that is there."""
    return {int(row.partition): parse_offset(row.offset)[1] + 1 for row in rows if row.offset != BEGIN}
